"""HTTP servers within the tests: one that answers with a function, and S3 in memory, with faults on
demand."""

import base64
import collections
import contextlib
import datetime
import email.utils
import hashlib
import http.server
import os
import socket
import socketserver
import threading
import time
import urllib.parse
from xml.sax.saxutils import escape


class Handler(http.server.BaseHTTPRequestHandler):
    # Headers and body are sent by two calls; the second would wait for an answer to the first.
    disable_nagle_algorithm = True
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def date_time_string(self, timestamp=None):
        return super().date_time_string(self.server.now() if timestamp is None else timestamp)

    def do_GET(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        answer = self.server.answer(self, body)
        if answer is None:  # the connection breaks
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
            return
        status, headers, text = answer
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if self.command != "HEAD" or "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128
    now = time.time  # of its clock

    def handle_error(self, request, client_address):  # a client that was killed
        pass


def forget_credentials(monkeypatch, tmp_path):
    """Hides this machine's own credentials for S3 and Google Cloud Storage."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "GOOGLE_", "GS_", "GCE_", "CLOUDSDK_", "STORAGE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))


def answer_range(wanted, headers, data, unsatisfiable):
    """The answer to a GET of an object: whole, or the range that its header names."""
    if not wanted:
        return 200, headers, data
    first, last = (int(n) for n in wanted.split("=")[1].split("-"))
    if first >= len(data):
        return 416, {"Content-Range": f"bytes */{len(data)}"}, unsatisfiable
    last = min(last, len(data) - 1)
    return 206, {**headers, "Content-Range": f"bytes {first}-{last}/{len(data)}"}, data[first:last + 1]


@contextlib.contextmanager
def answering(answer):
    """The URL of a server whose answer(request, body) returns status, headers and body."""
    server = Server(("127.0.0.1", 0), Handler)
    server.answer = answer
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


Object = collections.namedtuple("Object", "data tag writer")


def error(status, code, message="no"):
    return status, {}, f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()


def signature_error(request, secrets):
    """What S3 answers to a request that botocore would not sign alike; None if it would. `secrets`: by
    key id, (secret, token)."""
    import pytest
    auth = pytest.importorskip("botocore.auth")
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials
    header = request.headers.get("Authorization", "")
    if not header:
        return error(403, "AccessDenied")
    key = header.split("Credential=")[1].split("/")[0]
    if key not in secrets:
        return error(403, "InvalidAccessKeyId")
    secret, token = secrets[key]
    if request.headers.get("x-amz-security-token") != token:
        return error(400, "ExpiredToken", "old")
    date = datetime.datetime.strptime(request.headers["x-amz-date"], "%Y%m%dT%H%M%SZ")
    signer = auth.S3SigV4Auth(Credentials(key, secret, token), "s3", header.split("/")[2])
    again = AWSRequest(method=request.command, url=f"http://{request.headers['Host']}{request.path}")
    for name in header.split("SignedHeaders=")[1].split(",")[0].split(";"):
        again.headers[name] = request.headers[name]
    again.context["timestamp"] = date.strftime("%Y%m%dT%H%M%SZ")
    canonical = signer.canonical_request(again)
    if signer.signature(signer.string_to_sign(again, canonical), again) != header.split("Signature=")[1]:
        return error(403, "SignatureDoesNotMatch")
    return None


def every_other(fault, every=2):
    """A fault of the first of `every` times that a request comes, so that none fails as often as it is tried."""
    times = collections.Counter()

    def fault_of(number, method, key, query):
        request = method, key, tuple(sorted(query.items()))
        times[request] += 1
        return fault if times[request] % every == 1 else None

    return fault_of


class S3:
    """One bucket. `fault`, unless None, is called with the number of the request (from 0), its method,
    key and query, and gives what happens: None (nothing), "refuse" (403), "503", "reset" (before
    anything is done), "lost" (it is done, and the connection breaks), "late error" (a Complete is
    answered by 200 and an error). `conditions`: it heeds If-None-Match. `secrets`, unless None: see
    signature_error."""

    scheme, endpoint, writer = "s3", "AWS_ENDPOINT_URL", "x-amz-meta-shardfeed-writer"

    def __init__(self, bucket):
        self.bucket, self.conditions, self.secrets = bucket, True, None
        self.objects, self.uploads = {}, {}
        self.times = {}  # when objects were written, by key
        self.requests = []
        self.begun = 0
        self.fault = None
        self.lock = threading.Lock()

    def files(self, prefix):
        with self.lock:
            return {key[len(prefix):]: found.data for key, found in self.objects.items()
                    if key.startswith(prefix)}

    def answer(self, request, body):
        path, _, query = request.path.partition("?")
        parts = urllib.parse.unquote(path).lstrip("/").split("/", 1)
        bucket, key = parts[0], parts[1] if len(parts) > 1 else ""
        query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        with self.lock:
            number = len(self.requests)
            self.requests.append((request.command, key, query))
        if refused := self.refused(request):
            return refused
        what = self.fault and self.fault(number, request.command, key, query)
        if what == "refuse":
            return error(403, "AccessDenied")
        if what == "503":
            return error(503, "SlowDown")
        if what == "reset":
            return None
        if bucket != self.bucket:
            return error(404, "NoSuchBucket")
        if what == "late error" and request.command == "POST" and "uploadId" in query:
            return 200, {}, error(500, "InternalError")[2]
        with self.lock:
            done = self.do(request, key, query, body)
        return None if what == "lost" else done

    def refused(self, request):
        """The answer to a request without the right credentials, or that is none of this store's."""
        return self.secrets and signature_error(request, self.secrets)

    @staticmethod
    def creates(request):
        """Whether a PUT is to replace nothing."""
        return request.headers.get("If-None-Match") == "*"

    def do(self, request, key, query, body):
        tag = f'"{hashlib.md5(body).hexdigest()}"'
        command, upload = request.command, query.get("uploadId")
        if "content-md5" in request.headers:
            if base64.b64decode(request.headers["content-md5"]) != hashlib.md5(body).digest():
                return error(400, "BadDigest")
        if command == "PUT" and upload:
            if upload not in self.uploads:
                return error(404, "NoSuchUpload")
            self.uploads[upload]["parts"][int(query["partNumber"])] = Object(body, tag, None)
            return 200, {"ETag": tag}, b""
        if command == "PUT":
            if self.conditions and self.creates(request) and key in self.objects:
                return error(412, "PreconditionFailed")
            self.objects[key] = Object(body, tag, request.headers.get(self.writer))
            self.times[key] = time.time()
            return 200, {"ETag": tag}, b""
        if command == "POST" and "uploads" in query:
            self.begun += 1
            name = f"upload-{self.begun}<&>"
            self.uploads[name] = {"key": key, "parts": {}, "time": time.time(),
                                  "writer": request.headers.get(self.writer)}
            return 200, {}, (f"<InitiateMultipartUploadResult><UploadId>{escape(name)}</UploadId>"
                             "</InitiateMultipartUploadResult>").encode()
        if command == "POST":
            return self.complete(key, upload, body)
        if command == "DELETE" and upload:
            if self.uploads.pop(upload, None) is None:
                return error(404, "NoSuchUpload")
            return 204, {}, b""
        if command == "DELETE":
            self.objects.pop(key, None)
            return 204, {}, b""
        if "uploads" in query:
            return self.list_uploads(query)
        if "list-type" in query:
            return self.list(query)
        return self.get(request, key)

    def complete(self, key, upload, body):
        import xml.etree.ElementTree as ET
        if upload not in self.uploads:
            return error(404, "NoSuchUpload")
        found = self.uploads[upload]
        assert found["key"] == key
        data = b""
        for part in ET.fromstring(body):
            number, tag = int(part.find("PartNumber").text), part.find("ETag").text
            if number not in found["parts"] or found["parts"][number].tag != tag:
                return error(400, "InvalidPart")
            data += found["parts"][number].data
        del self.uploads[upload]
        tag = f'"{hashlib.md5(data).hexdigest()}-{len(found["parts"])}"'
        self.objects[key] = Object(data, tag, found["writer"])
        self.times[key] = time.time()
        return 200, {}, (f"<CompleteMultipartUploadResult><ETag>{escape(tag)}</ETag>"
                         "</CompleteMultipartUploadResult>").encode()

    def get(self, request, key):
        if key not in self.objects:
            return error(404, "NoSuchKey")
        found = self.objects[key]
        headers = {"ETag": found.tag}
        if key in self.times:
            headers["Last-Modified"] = email.utils.formatdate(self.times[key], usegmt=True)
        if found.writer:
            headers[self.writer] = found.writer
        if request.headers.get("If-Match", found.tag) != found.tag:
            return error(412, "PreconditionFailed")
        return answer_range(request.headers.get("Range"), headers, found.data, error(416, "InvalidRange")[2])

    def list(self, query):
        prefix = query.get("prefix", "")
        files, folders = [], set()
        for key in sorted(self.objects):
            if not key.startswith(prefix):
                continue
            name, slash, _ = key[len(prefix):].partition("/")
            if slash:
                folders.add(prefix + name + "/")
            else:
                stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(self.times.get(key)))
                files.append(f"<Contents><Key>{escape(key)}</Key><LastModified>{stamp}</LastModified>"
                             f"<Size>{len(self.objects[key].data)}</Size>"
                             f"<ETag>{escape(self.objects[key].tag)}</ETag></Contents>")
        text = "".join(files) + "".join(
            f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>" for folder in folders)
        return 200, {}, f"<ListBucketResult><IsTruncated>false</IsTruncated>{text}</ListBucketResult>".encode()

    def list_uploads(self, query, page=3):
        after = (query.get("key-marker", ""), query.get("upload-id-marker", ""))
        found = sorted((upload["key"], name, upload["time"]) for name, upload in self.uploads.items()
                       if upload["key"].startswith(query.get("prefix", "")))
        found = [each for each in found if each[:2] > after]
        more = len(found) > page
        text = ""
        for key, name, begun in found[:page]:
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(begun))
            text += (f"<Upload><Key>{escape(key)}</Key><UploadId>{escape(name)}</UploadId>"
                     f"<Initiated>{stamp}</Initiated></Upload>")
        if more:
            text += (f"<NextKeyMarker>{escape(found[page - 1][0])}</NextKeyMarker>"
                     f"<NextUploadIdMarker>{escape(found[page - 1][1])}</NextUploadIdMarker>")
        return 200, {}, (f"<ListMultipartUploadsResult><IsTruncated>{str(more).lower()}</IsTruncated>"
                         f"{text}</ListMultipartUploadsResult>").encode()


class Versioned(S3):
    """The same with versioning switched on: what is replaced or deleted stays as a noncurrent version, deleting
    leaves a marker, and answers name versions."""

    def __init__(self, bucket):
        super().__init__(bucket)
        self.noncurrent = []  # (key, Object)
        self.markers = set()

    def do(self, request, key, query, body):
        before = self.objects.get(key)
        status, headers, text = super().do(request, key, query, body)
        now = self.objects.get(key)
        if before is not None and now is not before:
            self.noncurrent.append((key, before))
        if now is not None:
            self.markers.discard(key)
        if request.command == "DELETE" and "uploadId" not in query:
            self.markers.add(key)
        if key in self.markers:
            headers = {**headers, "x-amz-delete-marker": "true"}
        if key and "uploads" not in query:
            headers = {**headers, "x-amz-version-id": f"{len(self.requests):032x}"}
        return status, headers, text
