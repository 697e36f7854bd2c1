#!/usr/bin/env python3
"""Installs the notebook kernel below a temporary prefix, asks it everything without a browser, and runs the notebooks of
scripts/examples/notebook: their outputs must be those in the files. Pictures are only counted. --update writes the files.
Ends with 77 where ipykernel or nbclient is missing: scripts/setup --tests installs them.

usage: notebook.py TIDE [--update]
"""
import base64
import os
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import ipykernel  # noqa: F401
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError
    from jupyter_client.manager import start_new_kernel
except ImportError as e:
    print("notebook: skipped: %s; scripts/setup --tests installs python3-ipykernel and python3-nbclient" % e)
    sys.exit(77)

runner, update = os.path.abspath(sys.argv[1]), sys.argv[2:] == ["--update"]
root = pathlib.Path(__file__).resolve().parents[2]
limit = 300  # seconds: a machine may be slow


def expect(condition, what):
    if not condition:
        sys.exit("notebook: %s" % (what,))


def merged(outputs):
    """The outputs with what was written to one stream in one piece: when it came in pieces is chance."""
    out = []
    for o in outputs:
        if out and out[-1].get("name") and out[-1].get("name") == o.get("name"):
            out[-1].text += o.text
        else:
            out.append(o)
    return out


def run(*cells):
    """The outputs of the cells in a new session, errors among them."""
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    NotebookClient(nb, kernel_name="tide", timeout=limit, allow_errors=True).execute()
    return [merged(cell.outputs) for cell in nb.cells]


def text_of(outputs):
    out = []
    for o in outputs:
        out.append(o.get("text") or o.get("data", {}).get("text/plain") or "\n".join(o.get("traceback", [])))
    return "\n".join(out)


def check_cells():
    cells = run(
        "local x = tide.ones(2)\nprint('hello')\nx * 3", "x:sum():item()", "y = 5;", "for i = 1, 2 do\n  print(i)\nend",
        "io.stderr:write('warn\\n')\nlocal function f(v)\n  error('deep ' .. v)\nend\nf(1)", "x +", "tide.plot({1, 2, 3}, {width = 200, height = 120})",
        "tide.rand(8, 8):imshow()\nprint 'after'", "io.read()", "local k = tide.kernel(function(i, x) return x[i] + 1 end)\nk(2, x)",
        ":mem", "undefined_name", "print('\\27]tide no mark')", "tide.ones(2):imshow({text = true})",
        "for i in tide.progress(3, 'train') do end", "2**3", "os.exit(3)", "x")
    hello, number, hidden, loop, failing, syntax, plot, image, nothing, kernel, memory, undefined, mark, _, bar, power, ended, anew = cells
    expect(hello[0].output_type == "stream" and hello[0].text == "hello\n", hello)
    expect(hello[1].output_type == "execute_result" and hello[1].data["text/plain"] == "tensor([3., 3.])", hello)
    expect(text_of(number) == "2.0", number)
    expect(not hidden, hidden)
    expect(text_of(loop) == "1\n2\n", loop)
    expect(failing[0].name == "stderr" and failing[0].text == "warn\n", failing)
    expect(failing[1].evalue == "In [5]:3: deep 1", failing)
    expect(any("In [5]:5: in upvalue 'cell'" in line for line in failing[1].traceback), failing)
    expect(syntax[0].evalue.startswith("In [6]:1: "), syntax)
    expect(power[0].evalue.endswith("Lua has no **: a power is x ^ 2"), power)
    for outputs in (plot, image):
        png = base64.b64decode(outputs[0].data["image/png"])
        expect(outputs[0].output_type == "display_data" and png[:4] == b"\x89PNG", outputs)
    expect(len(plot) == 1, "the picture is the only output: %s" % plot)
    expect(image[1].text == "after\n", image)
    expect(text_of(nothing) == "nil", nothing)
    expect(text_of(kernel) == "tensor([2., 2.])", kernel)
    expect("MiB in tensors" in text_of(memory), memory)
    expect("undefined global 'undefined_name'" in text_of(undefined), undefined)
    expect(text_of(mark) == "\x1b]tide no mark\n", mark)
    expect(re.fullmatch(r"\rtrain 3 in [^\r\x1b]*\n", text_of(bar)), bar)
    expect(ended[0].evalue == "the runner has ended with code 3; the next cell starts a new one", ended)
    expect("undefined global 'x'" in text_of(anew) and text_of(anew).endswith("nil"), anew)


def check_client():
    manager, client = start_new_kernel(kernel_name="tide", startup_timeout=limit)
    try:
        def complete(text):
            return client.complete(text, len(text), reply=True, timeout=limit)["content"]

        reply = complete("x = tide.ones(2)\nx:cums")
        expect(reply["matches"] == [], reply)  # x is not there yet
        client.execute("x = tide.ones(2)", reply=True, timeout=limit)
        reply = complete("y = 1\nx:cums")
        expect(reply["matches"] == ["cumsum", "cumsum_"] and reply["cursor_start"] == 8, reply)
        expect("linspace" in complete("tide.lin")["matches"], complete("tide.lin"))
        for text in ("tide.linspace", "tide.linspace(1, ", "x:cumsum("):
            reply = client.inspect(text, len(text), reply=True, timeout=limit)["content"]
            name = "linspace" if "lin" in text else "cumsum"
            expect(reply["found"] and name + "(" in reply["data"]["text/plain"], reply)
        reply = client.inspect("nothing_here", 12, reply=True, timeout=limit)["content"]
        expect(not reply["found"], reply)
        # The loop says that it runs, then it is interrupted. What it has set stays.
        request = client.execute("z = 0\nwhile true do\n  z = z + 1\n  if z == 10 then print('runs') end\nend", stop_on_error=False)
        while True:
            message = client.get_iopub_msg(timeout=limit)
            if message["msg_type"] == "stream" and "runs" in message["content"]["text"]:
                break
        manager.interrupt_kernel()
        reply = client.get_shell_msg(timeout=limit)
        while reply["parent_header"].get("msg_id") != request:
            reply = client.get_shell_msg(timeout=limit)
        content = reply["content"]
        expect(content["status"] == "error" and content["ename"] == "Interrupted", content)
        expect(content["evalue"].startswith("In ["), content)
        reply = client.execute("assert(z > 0)", reply=True, timeout=limit)["content"]
        expect(reply["status"] == "ok", reply)
    finally:
        client.stop_channels()
        manager.shutdown_kernel()


def shape_of(outputs):
    """What the outputs of a cell are compared by."""
    is_picture = ["image/png" in o.get("data", {}) for o in outputs]
    return [("picture", "") if picture else (o.output_type, text_of([o])) for picture, o in zip(is_picture, outputs)]


def check_notebook(path):
    nb = nbformat.read(path, 4)
    before = [shape_of(cell.get("outputs", [])) for cell in nb.cells]
    try:
        NotebookClient(nb, kernel_name="tide", timeout=limit, record_timing=False, resources={"metadata": {"path": str(root)}}).execute()
    except CellExecutionError as e:
        sys.exit("notebook: %s: %s" % (path.name, e))
    for cell in nb.cells:
        if "outputs" in cell:
            cell.outputs = merged(cell.outputs)
    if update:
        nbformat.write(nb, path)
    for cell, was in zip(nb.cells, before):
        now = shape_of(cell.get("outputs", []))
        expect(update or now == was, "%s: the cell\n%s\nshows\n%s\nand has\n%s" % (path.name, cell.source, now, was))
    expect(any(o[0] == "picture" for cell in nb.cells for o in shape_of(cell.get("outputs", []))), path.name + " has no picture")


with tempfile.TemporaryDirectory() as prefix:
    kernel = root / "scripts/notebook/tide_kernel.py"
    subprocess.run([sys.executable, str(kernel), "install", "--tide", runner, "--prefix", prefix], check=True)
    os.environ.update(JUPYTER_PATH=prefix + "/share/jupyter", IPYTHONDIR=prefix, JUPYTER_RUNTIME_DIR=prefix + "/runtime",
                      JUPYTER_CONFIG_DIR=prefix + "/config")
    check_cells()
    check_client()
    notebooks = sorted((root / "scripts/examples/notebook").glob("*.ipynb"))
    expect(notebooks, "no notebook in scripts/examples/notebook")
    for each in notebooks:
        check_notebook(each)
print("notebook: cells, completion, inspection, interrupt and %d notebooks" % len(notebooks))
