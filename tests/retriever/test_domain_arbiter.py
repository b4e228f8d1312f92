"""The arbiter of doubtful documents, against a real HTTP server on this machine."""

import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from retriever.biomed.domain import DomainConfig, DomainVerdict, Sketch, route_documents
from retriever.biomed.lexicon import Lexicon
from retriever.encoders.base import Vectors
from retriever.files import InputError

KEY = "sk-not-a-real-key"


def completion(content: object) -> bytes:
    return json.dumps({"choices": [{"message": {"content": content}}]}).encode()


def saying(domain: object, confidence: object) -> bytes:
    return completion(json.dumps({"domain": domain, "confidence": confidence}))


@dataclass
class Service:
    """A chat endpoint that gives the scripted answers in turn, the last one for ever."""

    answers: list[tuple[int, bytes]] = field(default_factory=list)
    requests: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    hold: threading.Event = field(default_factory=threading.Event)
    url: str = ""


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setenv("no_proxy", "*")
    state = Service()
    state.hold.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state.requests.append((self.path, dict(self.headers), body))
            state.hold.wait(10)
            status, content = state.answers[min(len(state.requests), len(state.answers)) - 1]
            self.send_response(status)
            for name, value in state.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        state.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield state
        state.hold.set()
        server.shutdown()
        thread.join()


def encode(texts: Sequence[str]) -> Vectors:
    """Return vectors that make texts with `sure` in them biomedical and all others doubtful."""
    rows = [
        (1, 0) if "sure" in text or text == "b" else (0, 1) if text == "g" else (1, 1)
        for text in texts
    ]
    return np.array(rows, dtype=np.float32)


def route(service: Service, texts: Sequence[str], **arbiter: object) -> list[DomainVerdict]:
    settings = DomainConfig.model_validate(
        {
            "threshold": 0,
            "biomedical_prototypes": ("b",),
            "general_prototypes": ("g",),
            "arbiter": {"url": service.url, "model": "judge-1", **arbiter},
        }
    )
    sketches = [Sketch(str(i), text) for i, text in enumerate(texts)]
    return route_documents(sketches, encode, settings, Lexicon(()))


def test_arbiter_decides_when_the_score_is_doubtful(service: Service) -> None:
    service.answers = [(200, saying("general", 0.8)), (200, saying("biomedical", 1))]
    verdicts = route(service, ["first", "sure", "second"])
    assert [(v.domain, v.tier, v.rule, v.confidence) for v in verdicts] == [
        ("general", 2, "arbiter", 0.8),
        ("biomedical", 1, "fused", 1.0),  # 0.5 + 0.55 is more than 1
        ("biomedical", 2, "arbiter", 1.0),
    ]
    assert all("fused" in v.signals and v.detail == "" for v in verdicts)


def test_arbiter_is_sent_the_sketch_as_an_openai_chat_when_asked(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARBITER_TEST_KEY", f"{KEY}\n")
    service.answers = [(200, saying("general", 0.5))]
    service.url += "/"
    route(service, ["naïve \ud800 \x00 text"], api_key_env="ARBITER_TEST_KEY")
    [(path, headers, body)] = service.requests
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert headers["Content-Type"] == "application/json"
    assert body["model"] == "judge-1"
    assert body["temperature"] == 0
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert body["messages"][1]["content"] == "naïve \ud800 \x00 text"


def test_no_key_is_sent_when_none_is_configured(service: Service) -> None:
    service.answers = [(200, saying("general", 0.5))]
    route(service, ["text"])
    assert "Authorization" not in service.requests[0][1]


@pytest.mark.parametrize(
    ("status", "content", "detail"),
    [
        (500, b"", "500"),
        (401, saying("general", 1), "401"),
        (200, b"", "JSON"),
        (200, b'"\xff"', "Unicode"),
        (200, b"[" * 100_000, "form"),
        (200, b'{"choices": []}', "form"),
        (200, completion("general"), "JSON"),
        (200, completion(None), "form"),
        (200, completion('["general"]'), "form"),
        (200, completion('{"domain": "general"}'), "confidence"),
        (200, saying("chemistry", 1), "chemistry"),
        (200, saying(["general"], 1), "general"),
        (200, saying("general", 1.5), "1.5"),
        (200, saying("general", True), "True"),
        (200, saying("general", "high"), "form"),
        (200, saying("general", float("nan")), "nan"),
    ],
)
def test_default_stands_in_and_says_why_when_the_arbiter_fails(
    service: Service, status: int, content: bytes, detail: str
) -> None:
    service.answers = [(status, content)]
    [verdict] = route(service, ["text"])
    assert (verdict.domain, verdict.tier, verdict.rule) == ("biomedical", 2, "arbiter_failed")
    assert verdict.confidence == 0.5
    assert detail in verdict.detail


def test_default_stands_in_when_the_arbiter_is_too_slow(service: Service) -> None:
    service.answers = [(200, saying("general", 1))]
    service.hold.clear()
    [verdict] = route(service, ["text"], timeout_s=0.2)
    assert (verdict.rule, "timed out" in verdict.detail) == ("arbiter_failed", True)


def test_default_stands_in_when_nothing_listens(service: Service) -> None:
    # Port 1 belongs to a service that no machine runs any more.
    [verdict] = route(service, ["text"], url="http://127.0.0.1:1/v1")
    assert (verdict.rule, "refused" in verdict.detail) == ("arbiter_failed", True)


def test_a_redirect_is_not_followed(service: Service) -> None:
    service.answers = [(302, b"")]
    service.headers = {"Location": f"{service.url}/elsewhere"}
    [verdict] = route(service, ["text"])
    assert (verdict.rule, "302" in verdict.detail) == ("arbiter_failed", True)
    assert len(service.requests) == 1


def test_arbiter_is_not_asked_again_when_it_failed_three_times_in_a_row(service: Service) -> None:
    good, bad = (200, saying("general", 1)), (503, b"")
    service.answers = [bad, bad, good, bad, bad, bad]
    verdicts = route(service, [f"text {i}" for i in range(9)])
    failed, asked = "arbiter_failed", "arbiter"
    assert [v.rule for v in verdicts] == [failed, failed, asked, *[failed] * 6]
    assert ["not asked" in v.detail for v in verdicts] == [False] * 6 + [True] * 3
    assert len(service.requests) == 6


@pytest.mark.parametrize("value", [None, " ", "two\nlines", "clé"])
def test_route_is_refused_when_the_environment_holds_no_usable_key(
    service: Service, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.delenv("ARBITER_TEST_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("ARBITER_TEST_KEY", value)
    with pytest.raises(InputError, match="ARBITER_TEST_KEY") as caught:
        route(service, ["text"], api_key_env="ARBITER_TEST_KEY")
    assert "two" not in str(caught.value)
    assert service.requests == []
