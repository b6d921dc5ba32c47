"""Reading over TLS in processes that have imported other libraries first."""

import importlib.util
import os
import shutil
import ssl
import subprocess
import sys
import threading
import urllib.parse

import pytest
from harness import IO_FAILED, REPOSITORY, run
from servers import Handler, Server, answer_range

sys.path.insert(0, str(REPOSITORY / "python"))
sf = pytest.importorskip("shardfeed", reason="the package is not built: python/build_package.py")

RECORDS = 3000
PROGRAM = """
for library in "{libraries}".split():
    __import__(library)
import shardfeed as sf
print(sum(1 for _ in sf.read("{spec}").shuffle(seed=1)))
"""


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    """A folder with the files of a server's certificate: trusted.pem, and key.pem."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("certificate")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", folder / "key.pem", "-out", folder / "trusted.pem"], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def spec(secure, tmp_path_factory):
    """The URL of a dataset of RECORDS records behind that server."""
    folder = tmp_path_factory.mktemp("served")
    with sf.write(f"{folder}/raw@4") as writer:
        for n in range(RECORDS):
            writer.write(b"%06d" % n * 20)

    def answer(request, _):
        path = folder / urllib.parse.unquote(request.path.lstrip("/"))
        if not path.is_file():
            return 404, {}, b""
        return answer_range(request.headers.get("Range"), {}, path.read_bytes(), b"")

    with Server(("127.0.0.1", 0), Handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(secure / "trusted.pem", secure / "key.pem")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.answer = answer
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://127.0.0.1:{server.server_port}/raw@4"
        server.shutdown()


@pytest.mark.parametrize("libraries", ["", "tensorflow pyarrow.fs", "torch", "torch tensorflow"])
def test_certificates_are_verified_also_after(libraries, spec, secure):
    """TensorFlow exports the functions of its own TLS library, which must not replace shardfeed's."""
    for library in libraries.split():
        if importlib.util.find_spec(library.split(".")[0]) is None:
            pytest.skip(f"{library} is not installed")
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(libraries=libraries, spec=spec)], capture_output=True,
                          text=True, timeout=300, env={**os.environ, "PYTHONPATH": str(REPOSITORY / "python"),
                                                       "SSL_CERT_FILE": str(secure / "trusted.pem")})
    assert (done.returncode, done.stdout.strip()) == (0, str(RECORDS)), done.stderr


def test_an_unknown_certificate_is_refused(spec):
    refused = run("verify", spec)
    assert refused.status == IO_FAILED and "set SSL_CERT_FILE to use another file" in refused.err
