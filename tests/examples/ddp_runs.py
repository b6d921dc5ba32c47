"""Runs programs of examples/python on processes that are forked from this one, which has imported torch already,
since that takes seconds.

    python ddp_runs.py

Each line of the standard input is a run: {"program", "processes", "arguments", "kill_at"}, where "program" is ddp or
language_model, and "kill_at" is the step at
which all its processes are killed. Each line of the output is a result: {"out", "statuses"}.
"""

import json
import os
import pathlib
import signal
import socket
import sys
import traceback

os.environ["OMP_NUM_THREADS"] = "1"  # as in torchrun; threads would not exist after fork

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples/python"))

import ddp
import language_model
import torch._dynamo  # noqa: F401  which DistributedDataParallel imports


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


PROGRAMS = {"ddp": ddp, "language_model": language_model}


def work(program, rank, world, port, out, arguments, kill_at):
    """The body of one of the processes; does not return."""
    def tell(line, **options):
        print(line, **options)
        if line.startswith(f"step {kill_at} "):
            signal.pause()  # to be killed here, and not when all is done

    status = 1
    program.print = tell
    try:
        os.dup2(out, 1)
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1",
                          MASTER_PORT=str(port))
        sys.argv = [program.__name__, *arguments]
        program.main()
        sys.stdout.flush()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def run(program, processes, arguments, kill_at):
    port = free_port()
    read, write = os.pipe()
    children = []
    for rank in range(processes):
        pid = os.fork()
        if pid == 0:
            work(PROGRAMS[program], rank, processes, port, write, arguments, kill_at)
        children.append(pid)
    os.close(write)
    out = []
    with open(read) as lines:
        for line in lines:
            out.append(line)
            if line.startswith(f"step {kill_at} "):
                for pid in children:
                    os.kill(pid, signal.SIGKILL)
    statuses = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    return {"out": "".join(out), "statuses": statuses}


if __name__ == "__main__":
    for request in sys.stdin:
        print(json.dumps(run(**json.loads(request))), flush=True)
