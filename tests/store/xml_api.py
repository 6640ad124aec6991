"""What delta-rs asks of Google's XML API and fake-gcs-server does not know: PUT of an object, and a listing's start.

A PUT becomes the same request of the JSON API, its condition included, so that the server decides on it. From a listing
the names up to its start are taken out. Everything else is passed on as it came.
"""

from __future__ import annotations

import http.client
import json
import threading
import xml.etree.ElementTree as ET
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, unquote, urlsplit

_OF_THE_CONNECTION = ("host", "connection", "transfer-encoding", "content-length", "keep-alive")


class XmlApi:
    def __init__(self, upstream: str) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_any(self) -> None:
                _serve(self, urlsplit(upstream).netloc)

            do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_PATCH = do_any  # noqa: N815

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _serve(request: BaseHTTPRequestHandler, host: str) -> None:
    body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
    method, path = request.command, request.path
    headers = {name: value for name, value in request.headers.items() if name.lower() not in _OF_THE_CONNECTION}
    headers["Host"] = host
    is_put = method == "PUT" and not path.startswith(("/storage/", "/upload/"))
    if is_put:
        bucket, _, key = urlsplit(path).path.removeprefix("/").partition("/")
        method = "POST"
        path = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(unquote(key), safe='')}"
        generation = request.headers.get("x-goog-if-generation-match")
        path += f"&ifGenerationMatch={generation}" if generation is not None else ""
    connection = http.client.HTTPConnection(host, timeout=30)
    try:
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    start = parse_qs(urlsplit(path).query).get("start-after")
    if start and answer.status == 200:
        content = _listing_after(content, start[0])
    request.send_response(answer.status)
    for name, value in answer.getheaders():
        if name.lower() not in (*_OF_THE_CONNECTION, "date", "server"):
            request.send_header(name, value)
    if is_put and answer.status == 200:
        written = json.loads(content)
        request.send_header("ETag", f'"{written["etag"]}"')
        request.send_header("x-goog-generation", str(written["generation"]))
        content = b""
    length = answer.getheader("Content-Length") if request.command == "HEAD" else str(len(content))
    request.send_header("Content-Length", length or "0")
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(content)


def _listing_after(content: bytes, start: str) -> bytes:
    listing = ET.fromstring(content)
    for item in listing.findall("Contents"):
        if (item.findtext("Key") or "") <= start:
            listing.remove(item)
    return bytes(ET.tostring(listing, encoding="utf-8", xml_declaration=True))
