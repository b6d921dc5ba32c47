"""Google Cloud Storage in memory, as its XML API has it, and the servers that give tokens for it."""

import hashlib
import hmac
import json
import threading
import urllib.parse
import zlib

from servers import S3

NAMESPACE = "http://doc.s3.amazonaws.com/2006-03-01"


def error(status, code, message="no", details=""):
    return status, {}, (f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code><Message>{message}"
                        f"</Message><Details>{details}</Details></Error>").encode()


def hmac_error(request, secrets):
    """The answer to a request whose GOOG4-HMAC-SHA256 signature is not the one computed here; None if it
    is. `secrets`: by access id."""
    algorithm, _, rest = request.headers["Authorization"].partition(" ")
    fields = dict(part.strip().split("=", 1) for part in rest.split(","))
    access_id, *scope = fields["Credential"].split("/")
    date = request.headers["x-goog-date"]
    if algorithm != "GOOG4-HMAC-SHA256" or scope[2:] != ["storage", "goog4_request"] or scope[0] != date[:8]:
        return error(400, "AuthorizationHeaderMalformed")
    if access_id not in secrets:
        return error(403, "InvalidAccessKeyId")
    names = fields["SignedHeaders"].split(";")
    own = {name.lower() for name in request.headers if name.lower().startswith("x-goog-")}
    if names != sorted(names) or not own <= set(names) or "host" not in names:
        return error(403, "SignatureDoesNotMatch", "headers are missing or not sorted")
    path, _, query = request.path.partition("?")
    query = sorted(urllib.parse.parse_qsl(query, keep_blank_values=True))
    canonical = "\n".join([
        request.command, urllib.parse.quote(urllib.parse.unquote_to_bytes(path), safe="/-_.~"),
        "&".join(f"{urllib.parse.quote(a, safe='-_.~')}={urllib.parse.quote(b, safe='-_.~')}" for a, b in query),
        *[f"{name}:{request.headers[name].strip()}" for name in names], "", ";".join(names),
        request.headers["x-goog-content-sha256"]])
    key = ("GOOG4" + secrets[access_id]).encode()
    for part in scope:
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    text = "\n".join([algorithm, date, "/".join(scope), hashlib.sha256(canonical.encode()).hexdigest()])
    if hmac.new(key, text.encode(), hashlib.sha256).hexdigest() != fields["Signature"]:
        return error(403, "SignatureDoesNotMatch")
    return None


class Gcs(S3):
    """One bucket, with servers.S3's faults. `tokens`, unless None: those that are taken; others have
    expired. `secrets`, unless None: see hmac_error. `encoded`: keys of objects that are stored with
    Content-Encoding: gzip."""

    scheme, endpoint, writer = "gs", "STORAGE_EMULATOR_HOST", "x-goog-meta-shardfeed-writer"

    def __init__(self, bucket):
        super().__init__(bucket)
        self.tokens, self.seen, self.projects = None, [], set()
        self.encoded = set()

    def refused(self, request):
        if any(name.lower().startswith("x-amz-") for name in request.headers):
            return error(400, "InvalidArgument", "headers of another dialect")
        self.projects.add(request.headers.get("x-goog-user-project"))
        authorization = request.headers.get("Authorization")
        self.seen.append(authorization)
        if self.tokens is None and self.secrets is None:
            return None
        if authorization is None:
            return error(401, "AccessDenied", "Access denied.",
                         "Anonymous caller does not have storage.objects.get access")
        if authorization.startswith("Bearer "):
            if authorization[len("Bearer "):] not in (self.tokens or ()):
                return error(401, "AuthenticationRequired", "Authentication required.")
            return None
        return hmac_error(request, self.secrets or {})

    @staticmethod
    def creates(request):
        return request.headers.get("x-goog-if-generation-match") == "0"

    def get(self, request, key):
        if key in self.encoded and key in self.objects:
            if "gzip" not in request.headers.get("Accept-Encoding", ""):
                # Decompressed on its way; ranges are ignored.
                return 200, {}, zlib.decompress(self.objects[key].data, 31)
            status, headers, data = super().get(request, key)
            return status, {**headers, "Content-Encoding": "gzip"}, data
        status, headers, data = super().get(request, key)
        return status, {**headers, "x-goog-generation": "1", "x-goog-stored-content-encoding": "identity"}, data

    def list(self, query, page=50):
        status, headers, text = super().list(query)
        # Pages, whose tokens are the last key.
        import re
        items = re.findall(rb"<Contents>.*?</Contents>|<CommonPrefixes>.*?</CommonPrefixes>", text, re.S)
        first = int(query.get("continuation-token", "0"))
        more = len(items) > first + page
        next_ = f"<NextContinuationToken>{first + page}</NextContinuationToken>" if more else ""
        return status, headers, (
            f"<?xml version='1.0'?><ListBucketResult xmlns='{NAMESPACE}'><IsTruncated>{str(more).lower()}"
            f"</IsTruncated>{next_}").encode() + b"".join(items[first:first + page]) + b"</ListBucketResult>"


class Tokens:
    """A token endpoint and a metadata server. `key`: the public key of the service account; `given`: what
    was asked for."""

    def __init__(self, store, key=None, expires_in=3600):
        self.store, self.key, self.expires_in = store, key, expires_in
        self.given, self.refuse, self.headers = [], None, {}
        self.lock = threading.Lock()

    def token(self, kind):
        with self.lock:
            self.given.append(kind)
            token = f"ya29.secret-{kind}-{len(self.given)}"
        if self.store.tokens is not None:
            self.store.tokens.add(token)
        return 200, {**self.headers}, json.dumps({"access_token": token, "expires_in": self.expires_in,
                                                  "token_type": "Bearer"}).encode()

    def answer(self, request, body):
        if request.headers.get("Metadata-Flavor") == "Google":
            if request.path == "/":
                return 200, {"Metadata-Flavor": "Google"}, b""
            assert request.path == "/computeMetadata/v1/instance/service-accounts/default/token"
            return self.token("machine")
        if self.refuse:
            return 400, {**self.headers}, json.dumps(self.refuse).encode()
        form = dict(urllib.parse.parse_qsl(body.decode()))
        if form["grant_type"] == "refresh_token":
            assert form == {"grant_type": "refresh_token", "refresh_token": "1//refresh&=", "client_id": "me",
                            "client_secret": "s3cret"}
            return self.token("user")
        assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
        self.claims = self.verified(form["assertion"])
        return self.token("service")

    def verified(self, jwt):
        """The claims of a token that the cryptography package finds well signed."""
        import base64

        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import padding
        assert "=" not in jwt
        header, claims, signature = (base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
                                     for part in jwt.split("."))
        assert json.loads(header) == {"alg": "RS256", "typ": "JWT", "kid": "key-1"}
        self.key.verify(signature, jwt.rpartition(".")[0].encode(), padding.PKCS1v15(), hashes.SHA256())
        return json.loads(claims)
