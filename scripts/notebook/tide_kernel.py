#!/usr/bin/env python3
"""A Jupyter kernel for tide: the cells of a notebook run in the runner, `tide --notebook`.

usage: tide_kernel.py install [--tide RUNNER] [--prefix FOLDER]

`install` registers the kernel for this Python, for the user or below a prefix (as of a virtual environment). Jupyter
starts the kernel by this file. It needs ipykernel. lua_bindings/runner/runner_notebook.c describes the protocol.
"""
import argparse
import codecs
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import base64

from ipykernel.kernelbase import Kernel

here = pathlib.Path(__file__).resolve().parent


def find_runner():
    """The runner beside this file, of an installed tree or of a build, else the one in PATH."""
    for path in (here / "../../../bin/tide", here / "../../build/bin/tide"):
        if path.exists():
            return str(path.resolve())
    return shutil.which("tide")


class Session:
    """A runner, and the replies to one request after the other."""

    def __init__(self, runner):
        self.folder = tempfile.mkdtemp(prefix="tide-")
        self.mark = b"\x1b]" + self.folder.encode() + b";"
        self.process = subprocess.Popen([runner, "--notebook", self.folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, start_new_session=True)
        self.pending = b""

    def close(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def interrupt(self, *_):
        self.process.send_signal(signal.SIGINT)

    def ask(self, kind, text, last, name="-"):
        """Yields (kind, bytes) up to the reply `last`: what is written is stdout or stderr, an ended runner is ended."""
        data = text.encode()
        try:
            self.process.stdin.write(b"%s %d %s\n" % (kind.encode(), len(data), name.encode()) + data)
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        out, err = self.process.stdout.fileno(), self.process.stderr.fileno()
        done, open_files = False, [err, out]  # what is there in both is shown in this order
        while not done or select.select([err] if err in open_files else [], [], [], 0)[0]:
            if not open_files:
                yield "ended", str(self.process.wait()).encode()
                return
            for file in select.select(open_files if not done else [err], [], [])[0]:
                data = os.read(file, 1 << 16)
                if not data:
                    open_files.remove(file)
                elif file == err:
                    yield "stderr", data
                else:
                    for reply in self.split(data):
                        yield reply
                        done = done or reply[0] == last

    def split(self, data):
        """The replies in what has come, and the text between them. A reply that has not come whole stays."""
        self.pending += data
        while self.pending:
            at = self.pending.find(self.mark)
            if at < 0:  # the end may be the beginning of a mark
                keep = next((n for n in range(min(len(self.mark), len(self.pending)), 0, -1)
                             if self.mark.startswith(self.pending[-n:])), 0)
                text, self.pending = self.pending[:len(self.pending) - keep], self.pending[len(self.pending) - keep:]
                if text:
                    yield "stdout", text
                return
            if at > 0:
                yield "stdout", self.pending[:at]
                self.pending = self.pending[at:]
            head = re.match(rb"(\w+);(\d+)\x07", self.pending[len(self.mark):])
            first = len(self.mark) + (head.end() if head else 0)
            if not head or len(self.pending) < first + int(head[2]):
                return
            reply = self.pending[first:first + int(head[2])]
            self.pending = self.pending[first + len(reply):]
            yield head[1].decode(), reply


class TideKernel(Kernel):
    implementation = "tide"
    implementation_version = "0.1"
    banner = "tide: tensors and kernels on the CPU and on GPUs"
    language_info = {"name": "lua", "version": "5.4", "mimetype": "text/x-lua", "file_extension": ".lua"}
    session_of_runner = None

    def runner(self):
        if not self.session_of_runner:
            path = os.environ.get("TIDE_RUNNER") or find_runner()
            if not path:
                raise RuntimeError("no runner: set TIDE_RUNNER to the path of tide, or install the kernel by --tide")
            self.session_of_runner = Session(path)
        return self.session_of_runner

    def send(self, kind, content):
        self.send_response(self.iopub_socket, kind, content)

    def do_execute(self, code, silent, store_history=True, user_expressions=None, allow_stdin=False):
        runner, failed = self.runner(), None
        decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}
        before = signal.signal(signal.SIGINT, runner.interrupt)
        try:
            for kind, data in runner.ask("run", code, "done", "In [%d]" % self.execution_count):
                if kind in decoders and not silent:
                    self.send("stream", {"name": kind, "text": decoders[kind].decode(data)})
                elif kind == "picture":
                    path = pathlib.Path(data.decode())
                    png = base64.b64encode(path.read_bytes()).decode()
                    path.unlink()
                    self.send("display_data", {"data": {"image/png": png, "text/plain": "(picture)"}, "metadata": {}})
                elif kind == "result" and not silent:
                    text = data.decode("utf-8", "replace").rstrip("\n")
                    self.send("execute_result", {"execution_count": self.execution_count, "data": {"text/plain": text}, "metadata": {}})
                elif kind in ("error", "interrupted", "ended"):
                    failed = kind, data.decode("utf-8", "replace")
        finally:
            signal.signal(signal.SIGINT, before)
        if not failed:
            return {"status": "ok", "execution_count": self.execution_count, "payload": [], "user_expressions": {}}
        kind, text = failed
        if kind == "ended":
            text = "the runner has ended with code %s; the next cell starts a new one" % text
            runner.close()
            self.session_of_runner = None
        lines = text.split("\n")
        error = {"ename": "Interrupted" if kind == "interrupted" else "Error", "evalue": lines[0], "traceback": lines}
        if not silent:
            self.send("error", error)
        return dict(error, status="error", execution_count=self.execution_count)

    def answer(self, kind, text, last):
        return b"".join(data for what, data in self.runner().ask(kind, text, last) if what == last).decode("utf-8", "replace")

    def do_complete(self, code, cursor_pos):
        word, *names = self.answer("complete", code[:cursor_pos], "matches").split("\n")
        return {"status": "ok", "matches": [name for name in names if name], "metadata": {},
                "cursor_start": cursor_pos - len(word), "cursor_end": cursor_pos}

    def do_inspect(self, code, cursor_pos, detail_level=0, omit_sections=()):
        end = cursor_pos + len(re.match(r"\w*", code[cursor_pos:])[0])
        text = self.answer("inspect", code[:end], "help")
        return {"status": "ok", "found": bool(text), "data": {"text/plain": text} if text else {}, "metadata": {}}

    def do_shutdown(self, restart):
        if self.session_of_runner:
            self.session_of_runner.close()
            self.session_of_runner = None
        return {"status": "ok", "restart": restart}


def install(runner, prefix):
    from jupyter_client.kernelspec import KernelSpecManager
    runner = runner and shutil.which(runner) or find_runner()
    if not runner:
        sys.exit("tide_kernel: no runner was found; name it by --tide")
    spec = {"argv": [sys.executable, str(here / "tide_kernel.py"), "-f", "{connection_file}"], "display_name": "tide",
            "language": "lua", "env": {"TIDE_RUNNER": os.path.abspath(runner)}}
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "kernel.json"), "w") as file:
            json.dump(spec, file, indent=2)
        where = KernelSpecManager().install_kernel_spec(folder, "tide", user=not prefix, prefix=prefix)
    print("tide_kernel: installed in %s, for %s" % (where, runner))


def main():
    if sys.argv[1:2] != ["install"]:
        from ipykernel.kernelapp import IPKernelApp
        return IPKernelApp.launch_instance(kernel_class=TideKernel)
    parser = argparse.ArgumentParser(prog="tide_kernel.py install")
    parser.add_argument("--tide", help="the runner, else the one beside this file or in PATH")
    parser.add_argument("--prefix", help="the folder to install below, else for the user")
    options = parser.parse_args(sys.argv[2:])
    install(options.tide, options.prefix)


if __name__ == "__main__":
    main()
