"""Servers that others wrote, on this machine alone: Ceph's radosgw, and nginx with Lua.

Debian's packages are unpacked into a folder (nothing is installed, and no service of the system starts),
each server listens on 127.0.0.1, and everything it writes is in a folder of the caller's."""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

RADOSGW = ["radosgw", "ceph-mon", "ceph-osd", "ceph-common"]
NGINX = ["nginx", "libnginx-mod-http-lua"]
KEY, SECRET = "shardfeed-tests", "a/secret+of=tests"


class CannotRun(Exception):
    """Why a server cannot be run here."""


def unpack(packages, cache):
    """The root below which the packages are, and those that they need and this system lacks."""
    root, debs = cache / "root", cache / "debs"
    done = cache / ("unpacked-" + "-".join(packages))
    if done.exists():
        return root
    if shutil.which("apt-get") is None:
        raise CannotRun("this is not a Debian system (there is no apt-get)")
    (debs / "partial").mkdir(parents=True, exist_ok=True)
    root.mkdir(parents=True, exist_ok=True)
    print(f"downloading {' '.join(packages)} and what they need into {debs}", flush=True)
    command = ["apt-get", "install", "--yes", "--quiet=2", "--no-install-recommends", "--download-only",
               "-o", f"Dir::Cache::archives={debs}", *packages]
    got = subprocess.run(command, capture_output=True, text=True)
    if got.returncode:
        subprocess.run(["apt-get", "update", "--quiet=2"], capture_output=True)
        got = subprocess.run(command, capture_output=True, text=True)
    if got.returncode:
        raise CannotRun("apt-get: " + (got.stderr.strip().splitlines() or ["failed"])[-1])
    for deb in sorted(debs.glob("*.deb")):
        subprocess.run(["dpkg-deb", "--extract", deb, root], check=True)
        deb.unlink()
    done.touch()
    return root


def environment(root):
    """In which the programs below `root` find each other and their libraries."""
    libraries = root / "usr/lib/x86_64-linux-gnu"
    return {**os.environ,
            "PATH": f"{root}/usr/bin:{root}/usr/sbin:{os.environ['PATH']}",
            "LD_LIBRARY_PATH": f"{libraries}:{libraries}/ceph:{root}/lib/x86_64-linux-gnu",
            "PYTHONPATH": f"{root}/usr/lib/python3/dist-packages"}


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


@contextlib.contextmanager
def running(command, log, env):
    """The process, stopped at the end. Its output goes to the file `log`."""
    with open(log, "ab") as out:
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=subprocess.STDOUT, env=env, start_new_session=True)
    try:
        yield process
    finally:
        for how in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, how)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
                break


def wait_for(url, process, log, seconds=120):
    """Until the server answers, whatever it is."""
    last = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < last:
        try:
            urllib.request.urlopen(url, timeout=2).close()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.3)
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-8:])
    raise CannotRun(f"{pathlib.Path(process.args[0]).name} does not answer; the end of {log}:\n{tail}")


@contextlib.contextmanager
def radosgw(cache, folder):
    """The URL of Ceph's S3, which knows KEY and SECRET. One monitor, and one daemon that keeps the
    objects in memory; about 1 GB of memory and half a minute."""
    root = unpack(RADOSGW, cache)
    env = environment(root)
    libraries = root / "usr/lib/x86_64-linux-gnu"
    mon, rgw = free_port(), free_port()
    fsid = "5ee0f6a2-7d26-4d3c-9d2a-3a2f0d6a0c11"
    (folder / "ceph.conf").write_text(f"""[global]
fsid = {fsid}
mon_initial_members = a
mon_host = v1:127.0.0.1:{mon}
ms_bind_msgr2 = false
auth_cluster_required = cephx
auth_service_required = cephx
auth_client_required = cephx
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 8
mon_allow_pool_size_one = true
mon_max_pg_per_osd = 1000
osd_crush_chooseleaf_type = 0
osd_objectstore = memstore
memstore_device_bytes = 2147483648
osd_class_dir = {libraries}/rados-classes
plugin_dir = {libraries}/ceph
erasure_code_dir = {libraries}/ceph/erasure-code
keyring = {folder}/keyring
run_dir = {folder}
admin_socket =
log_file = {folder}/$name.log
mon_data = {folder}/mon
osd_data = {folder}/osd
pid_file =
[osd]
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
[client.rgw]
rgw_frontends = beast endpoint=127.0.0.1:{rgw}
rgw_thread_pool_size = 64
""")
    log = folder / "ceph.out"

    def call(*command):
        done = subprocess.run([str(word) for word in command], env=env, capture_output=True, text=True,
                              timeout=120)
        if done.returncode:
            raise CannotRun(f"{command[0]} {command[1]}: {done.stderr.strip()[-500:]}")
        return done.stdout

    conf = ["-c", folder / "ceph.conf"]
    keyring = folder / "keyring"
    for name, caps in (("mon.", ["mon", "allow *"]),
                       ("client.admin", ["mon", "allow *", "osd", "allow *"]),
                       ("osd.0", ["mon", "allow profile osd", "osd", "allow *"]),
                       ("client.rgw", ["mon", "allow rw", "osd", "allow rwx"])):
        allowed = [word for pair in zip(caps[::2], caps[1::2]) for word in ("--cap", *pair)]
        call("ceph-authtool", *([] if keyring.exists() else ["--create-keyring"]), keyring, "--gen-key", "-n",
             name, *allowed)
    call("monmaptool", "--create", "--clobber", "--fsid", fsid, "--addv", "a", f"[v1:127.0.0.1:{mon}]",
         folder / "monmap")
    (folder / "osd").mkdir()
    call("ceph-mon", *conf, "--mkfs", "-i", "a", "--monmap", folder / "monmap", "--keyring", keyring)
    with contextlib.ExitStack() as stack:
        stack.enter_context(running(["ceph-mon", *conf, "-i", "a", "-f"], log, env))
        admin = ["ceph", *conf, "-n", "client.admin", "--connect-timeout", "60"]
        uuid = call("uuidgen").strip() if shutil.which("uuidgen") else fsid
        call(*admin, "osd", "new", uuid, "0")
        call("ceph-osd", *conf, "-i", "0", "--mkfs", "--osd-uuid", uuid)
        stack.enter_context(running(["ceph-osd", *conf, "-i", "0", "-f"], log, env))
        call("radosgw-admin", *conf, "-n", "client.rgw", "user", "create", "--uid=tests", "--display-name=tests",
             f"--access-key={KEY}", f"--secret-key={SECRET}")
        gateway = stack.enter_context(running(["radosgw", *conf, "-n", "client.rgw", "-f"], log, env))
        wait_for(f"http://127.0.0.1:{rgw}", gateway, log)
        yield f"http://127.0.0.1:{rgw}"


@contextlib.contextmanager
def nginx(cache, folder, served, *, milliseconds=0, rate="", refused=0.0, slow=0.0):
    """The URL of nginx that serves the folder `served`. It waits so long before each answer, sends so
    many bytes a second on a connection ("90m"), answers a share `refused` of the requests with 503 and
    lets a share `slow` of them wait a second longer."""
    root = unpack(NGINX, cache)
    port = free_port()
    modules = root / "usr/lib/nginx/modules"
    wait = f"""
        access_by_lua_block {{
          if math.random() < {refused} then ngx.exit(503) end
          ngx.sleep({milliseconds / 1000} + (math.random() < {slow} and 1 or 0))
        }}"""
    for name in ("logs", "temporary"):
        (folder / name).mkdir(exist_ok=True)
    places = "\n  ".join(f"{name}_temp_path {folder}/temporary/{name};"
                         for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (folder / "nginx.conf").write_text(f"""
load_module {modules}/ndk_http_module.so;
load_module {modules}/ngx_http_lua_module.so;
{'user root;' if os.geteuid() == 0 else ''}
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/logs/error.log warn;
events {{ worker_connections 1024; }}
http {{
  {places}
  access_log off;
  sendfile on;
  keepalive_requests 1000000;
  lua_package_path "{root}/usr/share/lua/5.1/?.lua;{root}/usr/share/lua/5.1/?/init.lua;;";
  server {{
    listen 127.0.0.1:{port} backlog=1024;
    location / {{
      root {served};
      {f'limit_rate {rate};' if rate else ''}{wait}
    }}
  }}
}}
""")
    log = folder / "nginx.out"
    program = root / "usr/sbin/nginx"
    if not program.exists():
        program = shutil.which("nginx") or "/usr/sbin/nginx"
    with running([program, "-p", folder, "-c", folder / "nginx.conf", "-g", "daemon off;"], log,
                 environment(root)) as process:
        wait_for(f"http://127.0.0.1:{port}/", process, log, 20)
        yield f"http://127.0.0.1:{port}"
