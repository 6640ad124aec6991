"""EMR, EMR Serverless and Databricks as far as the operators talk to them: one HTTP server on loopback.

It takes a job, plays its driver by writing the summary that the test wants, and says that the job has ended.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Driver = Callable[[dict[str, Any]], bool]  # given what was asked for, does its work and says whether it succeeded


class Services:
    def __init__(self) -> None:
        self.driver: Driver = lambda asked: True
        self.asked: list[dict[str, Any]] = []
        self.is_ok = True
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def connections(self) -> dict[str, str]:
        url = f"http://127.0.0.1:{self.port}"
        aws = {"conn_type": "aws", "login": "key", "password": "secret"}
        aws["extra"] = {"endpoint_url": url, "region_name": "us-east-1"}  # type: ignore[assignment]
        databricks = {"conn_type": "databricks", "host": "127.0.0.1", "port": self.port, "schema": "http"}
        databricks["password"] = "token"
        return {
            "AIRFLOW_CONN_AWS_DEFAULT": json.dumps(aws),
            "AIRFLOW_CONN_DATABRICKS_DEFAULT": json.dumps(databricks),
        }

    def answer(self, method: str, path: str, target: str, body: dict[str, Any]) -> dict[str, Any]:
        state = "SUCCESS" if self.is_ok else "FAILED"
        emr_state = "COMPLETED" if self.is_ok else "FAILED"
        match method, target or re.sub(r"\?.*", "", path):
            case _, "ElasticMapReduce.AddJobFlowSteps":
                return self._take(body, {"StepIds": ["s-1"]})
            case _, "ElasticMapReduce.DescribeStep":
                return {"Step": {"Id": "s-1", "Status": {"State": emr_state}}}
            case _, "ElasticMapReduce.DescribeCluster":
                return {"Cluster": {"Id": "j-1", "Name": "test"}}
            case "GET", "/applications/00f0000000000000":
                return {"application": {"applicationId": "00f0000000000000", "state": "STARTED"}}
            case "POST", "/applications/00f0000000000000/jobruns":
                return self._take(body, {"applicationId": "00f0000000000000", "jobRunId": "r-1", "arn": "a"})
            case "GET", "/applications/00f0000000000000/jobruns/r-1":
                return {"jobRun": {"jobRunId": "r-1", "state": state, "stateDetails": "told by the test"}}
            case "POST", text if re.fullmatch(r"/api/2\.\d/jobs/(runs/submit|run-now)", text):
                return self._take(body, {"run_id": 7})
            case "GET", text if re.fullmatch(r"/api/2\.\d/jobs/runs/get", text):
                ended = {"life_cycle_state": "TERMINATED", "result_state": state, "state_message": "told by the test"}
                return {"run_id": 7, "run_page_url": "http://127.0.0.1/run", "state": ended, "tasks": []}
            case "GET", text if re.fullmatch(r"/api/2\.\d/jobs/runs/get-output", text):
                return {"error": "told by the test"}
        raise AssertionError(f"nobody answers {method} {path} {target}")

    def _take(self, body: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(body)
        self.is_ok = self.driver(body)
        return answer

    def _handler(services) -> type[BaseHTTPRequestHandler]:  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length) or b"{}")
                answer = services.answer(self.command, self.path, self.headers.get("X-Amz-Target", ""), body)
                content = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        return Handler
