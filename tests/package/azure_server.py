"""A storage account of Azure in memory, with faults on request. It judges signatures by its own
computation, and stores_azure_test.py has Azure's SDK judge it: the SDK's requests pass, and a wrong
key does not."""

import base64
import datetime
import hashlib
import hmac
import threading
import time
import urllib.parse
import xml.etree.ElementTree as ET
from email.utils import formatdate, parsedate_to_datetime
from xml.sax.saxutils import escape

from servers import Object, answer_range

XML = {"Content-Type": "application/xml"}
WRITER = "x-ms-meta-shardfeed_writer"
SIGNED_HEADERS = ["Content-Encoding", "Content-Language", "Content-Length", "Content-MD5", "Content-Type",
                  "Date", "If-Modified-Since", "If-Match", "If-None-Match", "If-Unmodified-Since", "Range"]


def error(status, code, message="no", detail=""):
    if detail:
        detail = f"<AuthenticationErrorDetail>{escape(detail)}</AuthenticationErrorDetail>"
    text = (f'<?xml version="1.0" encoding="utf-8"?><Error><Code>{code}</Code><Message>{message}\n'
            f"RequestId:1\nTime:2</Message>{detail}</Error>")
    return status, {"x-ms-error-code": code, **XML}, text.encode()


def sign(key, text):
    return base64.b64encode(hmac.new(key, text.encode(), hashlib.sha256).digest()).decode()


def shared_key(request, account, key):
    """The signature of a request, as "Authorize with Shared Key" of Azure's documentation says."""
    path, _, query = request.path.partition("?")
    lines = [request.command]
    for name in SIGNED_HEADERS:
        value = request.headers.get(name, "")
        lines.append("" if name == "Content-Length" and value == "0" else value)
    headers = sorted((name.lower(), value.strip()) for name, value in request.headers.items()
                     if name.lower().startswith("x-ms-"))
    lines += [f"{name}:{value}" for name, value in headers]
    resource = f"/{account}{path}"
    parameters = {}
    for name, value in urllib.parse.parse_qsl(query, keep_blank_values=True):
        parameters.setdefault(name.lower(), []).append(value)
    for name in sorted(parameters):
        resource += f"\n{name}:{','.join(sorted(parameters[name]))}"
    return sign(key, "\n".join([*lines, resource]))


def sas_signature(query, account, key, container, blob):
    """That of "Create an account SAS" and of "Create a service SAS", of versions from 2020-12-06 on."""
    def of(*names):
        return [query.get(name, "") for name in names]
    if "ss" in query:
        lines = [account, *of("sp", "ss", "srt", "st", "se", "sip", "spr", "sv", "ses"), ""]
    else:
        resource = f"/blob/{account}/{container}" + (f"/{blob}" if query.get("sr") == "b" else "")
        lines = [*of("sp", "st", "se"), resource,
                 *of("si", "sip", "spr", "sv", "sr", "snapshot", "ses", "rscc", "rscd", "rsce", "rscl", "rsct")]
    return sign(key, "\n".join(lines))


class Azure:
    """One container. `fault`, unless None, is called with the number of the request (from 0), its
    method, key and query, and gives what happens: None (nothing), "refuse" (403), "503", "reset" (before
    anything is done), "lost" (it is done, and the connection breaks). `conditions`: it heeds
    If-None-Match. `uploads`: blocks that are not committed, by the name of their blob. `tokens`: those
    of Azure AD that are valid. `skew`: its clock less that of this machine, in seconds. `types`: of blobs
    that are no block blobs. `anonymous`: of requests that are not signed, what is answered instead of
    an error."""

    def __init__(self, account, container):
        self.account, self.container = account, container
        self.key = hashlib.sha256(b"the account's").digest()
        self.conditions, self.public = True, False
        self.objects, self.uploads, self.types, self.leases = {}, {}, {}, set()
        self.times = {}  # when objects were written, by key
        self.tokens = set()
        self.requests, self.ways = [], set()
        self.page, self.skew, self.written = 5000, 0, 0
        self.fault = None
        self.lock = threading.Lock()

    @property
    def key_text(self):
        return base64.b64encode(self.key).decode()

    def files(self, prefix):
        with self.lock:
            return {key[len(prefix):]: found.data for key, found in self.objects.items()
                    if key.startswith(prefix)}

    def answer(self, request, body):
        request.server.now = lambda: time.time() + self.skew
        path, _, query = request.path.partition("?")
        parts = urllib.parse.unquote(path).lstrip("/").split("/", 2)
        account, container, key = [*parts, "", "", ""][:3]
        query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        with self.lock:
            number = len(self.requests)
            self.requests.append((request.command, key, {name: value for name, value in query.items()
                                                         if name != "sig"}))
        refused = self.refused(request, query, container, key)
        if refused:
            return refused
        what = self.fault and self.fault(number, request.command, key, query)
        if what == "refuse":
            return error(403, "AuthorizationPermissionMismatch", "This request is not authorized")
        if what == "503":
            return error(503, "ServerBusy")
        if what == "reset":
            return None
        if account != self.account or container != self.container:
            return error(404, "ContainerNotFound", "The specified container does not exist.")
        with self.lock:
            done = self.do(request, key, query, body)
        return None if what == "lost" else done

    def refused(self, request, query, container, key):
        header = request.headers.get("Authorization", "")
        wrong = "Server failed to authenticate the request."
        if header.startswith("SharedKey "):
            self.ways.add("key")
            account, signature = header.split(" ")[1].split(":")
            date = request.headers["x-ms-date"]
            if abs(parsedate_to_datetime(date).timestamp() - time.time() - self.skew) > 900:
                return error(403, "AuthenticationFailed", wrong, f"Request date header too old: '{date}'")
            if account != self.account or signature != shared_key(request, account, self.key):
                return error(403, "AuthenticationFailed", wrong, "The MAC signature found in the HTTP "
                             f"request '{signature}' is not the same as any computed signature.")
            return None
        if header.startswith("Bearer "):
            self.ways.add("token")
            if header.split(" ")[1] in self.tokens:
                return None
            return error(401, "InvalidAuthenticationInfo", "Lifetime validation failed. The token is expired.")
        if "sig" in query:
            self.ways.add("sas")
            return self.sas_refused(request, query, container, key)
        self.ways.add("nothing")
        if self.public:
            return None
        return error(404, "ResourceNotFound", "The specified resource does not exist.")

    def sas_refused(self, request, query, container, key):
        wrong = "Server failed to authenticate the request."
        if query["sig"] != sas_signature(query, self.account, self.key, container, key):
            return error(403, "AuthenticationFailed", wrong, "Signature did not match.")
        now = datetime.datetime.fromtimestamp(time.time() + self.skew, datetime.timezone.utc)
        now = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        if not query.get("st", "") <= now < query["se"]:
            return error(403, "AuthenticationFailed", wrong, "Signature not valid in the specified time "
                         f"frame: Start [{query.get('st')}] - Expiry [{query['se']}] - Current [{now}]")
        needed = {"GET": "l" if query.get("comp") == "list" else "r", "HEAD": "r", "PUT": "w",
                  "DELETE": "d"}[request.command]
        if needed not in query["sp"]:
            return error(403, "AuthorizationPermissionMismatch", "This request is not authorized")
        return None

    def do(self, request, key, query, body):
        command, what = request.command, query.get("comp")
        if "Content-MD5" in request.headers:
            if base64.b64decode(request.headers["Content-MD5"]) != hashlib.md5(body).digest():
                return error(400, "Md5Mismatch")
        if key in self.leases and command in ("PUT", "DELETE") and what != "block":
            return error(412, "LeaseIdMissing", "There is currently a lease on the blob.")
        if command == "PUT" and key in self.types:
            return error(409, "InvalidBlobType", "The blob type is invalid for this operation.")
        if command == "PUT" and what == "block":
            return self.put_block(key, query["blockid"], body)
        if command == "PUT":
            none = self.conditions and request.headers.get("If-None-Match") == "*"
            if none and key in self.objects:
                return error(409, "BlobAlreadyExists", "The specified blob already exists.")
            if what == "blocklist":
                data = self.listed(key, body)
                if data is None:
                    return error(400, "InvalidBlockList", "The specified block list is invalid.")
                return self.write(request, key, data)
            if request.headers.get("x-ms-blob-type") != "BlockBlob":
                return error(400, "MissingRequiredHeader")
            return self.write(request, key, body)
        if command == "DELETE":
            if self.objects.pop(key, None) is None:
                return error(404, "BlobNotFound", "The specified blob does not exist.")
            return 202, {}, b""
        if what == "list":
            return self.list(query)
        if what == "blocklist":
            return self.blocks(key)
        return self.get(request, key)

    def put_block(self, key, name, body):
        blocks = self.uploads.get(key, {"parts": {}})["parts"]
        if not body or len(base64.b64decode(name, validate=True)) > 64 or len(blocks) >= 100_000:
            return error(400, "InvalidInput")
        if blocks and len(next(iter(blocks))) != len(name):
            return error(400, "InvalidBlobOrBlock", "The specified blob or block content is invalid.")
        self.uploads.setdefault(key, {"key": key, "parts": blocks})["parts"][name] = body
        return 201, {}, b""

    def listed(self, key, body):
        """The bytes of a list of blocks; None: one of them is not there."""
        blocks = self.uploads.get(key, {"parts": {}})["parts"]
        names = [node.text for node in ET.fromstring(body)]
        assert {node.tag for node in ET.fromstring(body)} == {"Uncommitted"} and len(names) <= 50_000
        if not all(name in blocks for name in names):
            return None
        return b"".join(blocks[name] for name in names)

    def write(self, request, key, data):
        self.written += 1
        tag = f'"0x8D{self.written:012X}"'
        self.objects[key] = Object(data, tag, request.headers.get(WRITER))
        self.times[key] = time.time()
        self.uploads.pop(key, None)  # those of other writers, too
        return 201, {"ETag": tag}, b""

    def blocks(self, key):
        if key not in self.objects and key not in self.uploads:
            return error(404, "BlobNotFound", "The specified blob does not exist.")
        blocks = self.uploads.get(key, {"parts": {}})["parts"]
        text = "".join(f"<Block><Name>{escape(name)}</Name><Size>{len(data)}</Size></Block>"
                       for name, data in blocks.items())
        return 200, XML, (f'<?xml version="1.0" encoding="utf-8"?><BlockList><UncommittedBlocks>{text}'
                         "</UncommittedBlocks></BlockList>").encode()

    def get(self, request, key):
        if key not in self.objects:
            return error(404, "BlobNotFound", "The specified blob does not exist.")
        found = self.objects[key]
        headers = {"ETag": found.tag, "x-ms-blob-type": self.types.get(key, "BlockBlob")}
        if key in self.times:
            headers["Last-Modified"] = formatdate(self.times[key], usegmt=True)
        if found.writer:
            headers[WRITER] = found.writer
        if request.headers.get("If-Match", found.tag) != found.tag:
            return error(412, "ConditionNotMet", "The condition specified using HTTP conditional header(s) "
                         "is not met.")
        wanted = request.headers.get("x-ms-range") or request.headers.get("Range")
        return answer_range(wanted, headers, found.data, error(416, "InvalidRange")[2])

    def list(self, query):
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        keys = set(self.objects)
        if "uncommittedblobs" in query.get("include", ""):
            keys |= set(self.uploads)
        entries = {}  # by name
        for key in sorted(keys):
            name, slash, _ = key[len(prefix):].partition("/")
            if not key.startswith(prefix):
                continue
            if slash and delimiter:
                folder = prefix + name + "/"
                entries[folder] = f"<BlobPrefix><Name>{escape(folder)}</Name></BlobPrefix>"
                continue
            properties = "<BlobType>BlockBlob</BlobType>"
            if key in self.objects:
                found = self.objects[key]
                tag = escape(found.tag.strip('"'))
                stamp = formatdate(self.times.get(key), usegmt=True)
                properties += (f"<Content-Length>{len(found.data)}</Content-Length><Etag>{tag}</Etag>"
                               f"<Last-Modified>{stamp}</Last-Modified>")
            entries[key] = f"<Blob><Name>{escape(key)}</Name><Properties>{properties}</Properties></Blob>"
        after = base64.b64decode(query.get("marker", "")).decode()
        names = [name for name in sorted(entries) if name > after]
        page = min(self.page, int(query.get("maxresults", 5000)))
        # As Azure may, it begins with a page of nothing.
        last = " " if page < 5000 and not after else names[page - 1] if len(names) > page else ""
        shown = [] if last == " " else names[:page]
        marker = base64.b64encode(last.encode()).decode()
        return 200, XML, ('<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs>'
                         f'{"".join(entries[name] for name in shown)}</Blobs><NextMarker>{marker}</NextMarker>'
                         "</EnumerationResults>").encode()
