"""The installed kernel in JupyterLab, in a browser: outputs, a widget that answers, our tables in both themes.

Pictures of it are left in $TRACEHOST_PICTURES, where that is set.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from conftest import clean_environment
from notebook_support import notebook, save

MISSING = [name for name in ("jupyterlab", "ipywidgets", "playwright") if not importlib.util.find_spec(name)]  # fmt: skip
if not shutil.which("chromium"):
    MISSING.append("chromium (Debian's)")
pytestmark = pytest.mark.skipif(
    bool(MISSING),
    reason=f"not installed: {', '.join(MISSING)}; `scripts/test --jupyterlab` runs these tests with what they need",
)

CELLS = [
    "import matplotlib.pyplot as plt\n%matplotlib inline\nlines = plt.plot([1, 3, 2])",
    "import ipywidgets\n@ipywidgets.interact(n=ipywidgets.IntSlider(3, 0, 9))\ndef squared(n): print(n, 'squared is', n * n)",
    "import torch, tracehost\n@tracehost.function\ndef scale(x, factor):\n    y = x * factor\n    return y.relu() if y.sum() > 0 else y\n"
    "for n in (2, 2, 3): scale(torch.ones(n), 2)\nscale(torch.ones(2), 0.5)\nscale",
    "scale.get_concrete_function(tracehost.TensorSpec([None, 3]), 1)",
    "%load_ext tracehost\n%graph scale",
    "%%trace\nscale(torch.ones(4), 2)",
    "%retraces",
    "import sys\nprint('run by', sys.executable)",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("lab")
    save(
        made / "n.ipynb",
        notebook(*CELLS, kernelspec={"name": "tracehost", "display_name": "Python (tracehost)"}),
    )
    settings = made / "config" / "lab" / "user-settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')
    return made


@pytest.fixture(scope="module")
def address(host, folder):
    """Where a server of the lab listens that has our kernel besides its own."""
    command = [host, "kernel", "install", "--prefix", folder / "prefix"]
    subprocess.run(command, env=clean_environment(), check=True, capture_output=True)
    env = clean_environment(JUPYTER_PATH=str(folder / "prefix" / "share" / "jupyter"))
    for kind in ("CONFIG", "DATA", "RUNTIME"):
        env[f"JUPYTER_{kind}_DIR"] = str(folder / kind.lower())
    env["IPYTHONDIR"] = str(folder / "ipython")
    options = ["--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0", "--IdentityProvider.token=word"]  # fmt: skip
    lab = ["--LabApp.expose_app_in_browser=True", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]  # fmt: skip
    server = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", *options, *lab, f"--ServerApp.root_dir={folder}"],
        env=env,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    said = []
    try:
        for line in server.stderr:
            said.append(line)
            found = re.search(r"http://127\.0\.0\.1:(\d+)/lab", line)
            if found:
                break
        else:
            raise AssertionError("".join(said))
        rest = threading.Thread(target=said.extend, args=(server.stderr,))  # or it would block
        rest.start()
        yield f"http://127.0.0.1:{found[1]}/lab/tree/n.ipynb?token=word"
    finally:
        server.terminate()
        server.wait(timeout=60)
        rest.join()
        server.stderr.close()


@pytest.fixture(scope="module")
def page(address):
    """The notebook in a browser, all cells run."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        # High enough for all cells: those out of sight have no elements.
        page = browser.new_page(viewport={"width": 1300, "height": 2500})
        page.set_default_timeout(60_000)
        page.goto(address)
        page.wait_for_selector(".jp-Notebook .jp-CodeCell")
        page.wait_for_function("window.jupyterapp.shell.currentWidget?.sessionContext?.isReady")
        page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells') }")
        page.wait_for_selector(f"{cell(7)}.jp-OutputArea-output >> text=run by")
        yield page
        browser.close()


def cell(index):
    return f".jp-Notebook .jp-CodeCell >> nth={index} >> "


def picture(page, name):
    if os.environ.get("TRACEHOST_PICTURES"):
        page.screenshot(path=Path(os.environ["TRACEHOST_PICTURES"]) / f"{name}.png")


def test_all_cells_ran_without_an_error(page):
    assert page.inner_text(".jp-KernelName").strip() == "Python (tracehost)"
    for index in range(len(CELLS)):
        assert page.inner_text(f"{cell(index)}.jp-InputPrompt") == f"[{index + 1}]:"
    assert page.query_selector_all("[data-mime-type='application/vnd.jupyter.error']") == []
    assert page.query_selector_all("[data-mime-type='application/vnd.jupyter.stderr']") == []
    assert page.inner_text(f"{cell(7)}.jp-OutputArea-output").strip() == f"run by {sys.executable}"


def test_the_plot_is_a_picture(page):
    image = page.wait_for_selector(f"{cell(0)}.jp-OutputArea-output img")
    assert image.get_attribute("src").startswith("data:image/png")
    assert image.bounding_box()["width"] > 200


def test_a_slider_asks_the_kernel(page):
    shown = f"{cell(1)}.jp-OutputArea-output pre"
    page.wait_for_selector(f"{shown} >> text=3 squared is 9")
    page.focus(f"{cell(1)}.noUi-handle")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(f"{shown} >> text=4 squared is 16")


def test_tables_and_a_picture_of_the_graph(page):
    table = page.inner_text(f"{cell(2)}.jp-OutputArea-output")
    assert table.startswith("scale: 4 calls, 1 hits, 3 traces in ")
    assert "argument 'x', dimension 0, was 2, is 3" in table and "In[3]:6" in table
    assert page.inner_text(f"{cell(3)}.jp-OutputArea-output caption") == (
        "scale (x: float32[None, 3], factor=1) -> float32[None, None]"
    )
    page.click(f"{cell(3)}summary")
    assert "torch.mul(x, " in page.inner_text(f"{cell(3)}details pre")
    if shutil.which("dot"):
        image = page.wait_for_selector(f"{cell(4)}.jp-OutputArea-output img")
        assert image.get_attribute("src").startswith("data:image/svg+xml")
    else:
        assert "prim::If" in page.inner_text(f"{cell(4)}.jp-OutputArea-output")
    traced = page.inner_text(f"{cell(5)}.jp-OutputArea-child >> nth=1")
    assert "1 call, 0 hits, 1 trace" in traced and "was 3, is 4" in traced
    assert page.inner_text(f"{cell(6)}.jp-OutputArea-output caption") == "4 retraces"


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_tables_have_the_colours_of_the_page(page, theme):
    change = "name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})"
    page.evaluate(change, f"JupyterLab {theme}")
    page.wait_for_selector(f"body[data-jp-theme-name='JupyterLab {theme}']", state="attached")
    page.wait_for_selector("#jupyterlab-splash", state="detached")
    colour = "element => getComputedStyle(element).color"
    expected = page.eval_on_selector(f"{cell(3)}.jp-OutputArea-output", colour)
    for part in ("caption", "th", "td", "pre"):
        found = page.eval_on_selector(f"{cell(3)}.jp-OutputArea-output {part}", colour)
        assert found == expected, part
    picture(page, theme.lower())
