"""Archives: what lies there, what is downloaded, and what goes wrong on the way."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from headwater.errors import InputError
from headwater.experiments.data.official import Archive, fetch, require

CONTENT = bytes(range(256)) * 300
MD5 = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Serves the content whole, altered, or only its first half though it promised all."""

    def do_GET(self) -> None:
        content = CONTENT[::-1] if "altered" in self.path else CONTENT
        self.send_response(404 if "gone" in self.path else 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if "interrupted" in self.path else content)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


def test_a_download_that_passes_its_checksum_is_kept(server: str, data: Path) -> None:
    path = fetch(Archive(f"{server}/set.tar.gz", len(CONTENT), MD5), data)
    assert path == data / "set.tar.gz"
    assert path.read_bytes() == CONTENT
    assert list(data.iterdir()) == [path]


@pytest.mark.parametrize("fault", ["altered", "interrupted", "gone"])
def test_a_bad_download_is_an_error_that_says_what_to_do_and_leaves_nothing(
    server: str, data: Path, fault: str
) -> None:
    url = f"{server}/{fault}/set.tar.gz"
    with pytest.raises(InputError) as error:
        fetch(Archive(url, len(CONTENT), MD5), data)
    for part in (str(data / "set.tar.gz"), url, "76,800 bytes", MD5, f"into {data}"):
        assert part in str(error.value)
    if fault == "altered":
        assert hashlib.md5(CONTENT[::-1], usedforsecurity=False).hexdigest() in str(error.value)
    assert not list(data.iterdir())


def test_without_a_network_the_error_says_what_to_fetch_and_where_to_put_it(data: Path) -> None:
    with pytest.raises(
        InputError, match=f"Fetch http://127.0.0.1:9/set.tar.gz .*{MD5}.* into {data}"
    ):
        fetch(Archive("http://127.0.0.1:9/set.tar.gz", len(CONTENT), MD5), data)
    assert not list(data.iterdir())


def test_an_archive_that_lies_there_is_not_downloaded(data: Path) -> None:
    (data / "set.tar.gz").write_bytes(CONTENT)
    archive = Archive("http://127.0.0.1:9/set.tar.gz", len(CONTENT), MD5)
    require(archive, fetch(archive, data))


@pytest.mark.parametrize(
    ("content", "what"), [(CONTENT[:1000], "truncated"), (CONTENT[::-1], "altered")]
)
def test_another_file_under_its_name_is_refused_with_both_checksums(
    data: Path, content: bytes, what: str
) -> None:
    path = data / "set.tar.gz"
    path.write_bytes(content)
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    with pytest.raises(
        InputError, match=f"{what}.*76,800 bytes with MD5 {MD5}, found {len(content):,} .*{found}"
    ):
        require(Archive("http://127.0.0.1:9/set.tar.gz", len(CONTENT), MD5), path)
