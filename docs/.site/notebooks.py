"""Notebooks as pages of the site: what was executed and committed is shown, nothing is run.

A hook of mkdocs: ``notebooks/NAME.ipynb`` becomes the page ``notebooks/NAME.md``, and links between
notebooks lead to these pages. The notebook itself stays beside it, to be taken along.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each notebook."""
    for found in [file for file in files if file.src_uri.endswith(".ipynb")]:
        notebook = json.loads(found.content_string)
        name = PurePosixPath(found.src_uri)
        text = _markdown(notebook, name.name)
        page = name.with_suffix(".md").as_posix()
        files.append(File.generated(config, page, content=text))
    return files


def _markdown(notebook: dict[str, Any], name: str) -> str:
    cells = [part for cell in notebook["cells"] for part in _cell(cell)]
    taken = f"[Take this notebook along]({name}){{ download={name} }}"
    return "\n\n".join([cells[0], taken, *cells[1:]])


def _cell(cell: dict[str, Any]) -> Iterable[str]:
    text = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield text.replace(".ipynb)", ".md)")
        return
    yield f"```python\n{text}\n```"
    for output in cell["outputs"]:
        yield _output(output)


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        code = "".join(data["image/png"]).replace("\n", "")
        return f'<img alt="picture" src="data:image/png;base64,{code}">'
    if "text/html" in data:
        # one block without empty lines, which would end it
        html = "".join(data["text/html"])
        lines = (line.strip() for line in html.splitlines())
        return f"<div class='output'>{''.join(line for line in lines if line)}</div>"
    return f"```text\n{''.join(output.get('text', data.get('text/plain', ''))).rstrip()}\n```"
