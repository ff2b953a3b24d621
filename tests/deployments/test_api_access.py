"""Who may ask: keys, what they open, how they are replaced, and what other pages may do."""

import asyncio
import json
import logging
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from crag_core.errors import SettingsError
from deployments.api import keys as keys_module
from deployments.api.access import Access, access_for
from deployments.api.keys import ApiKey, Keys, Permission, new_secret, sha256_of
from deployments.settings import AccessSettings, ApiSettings
from tests.deployments.application import Application, refusal

SECRET, OPERATOR, OLD = "crag-asks", "crag-operates", "crag-old"


def line(key_id: str, secret: str, **fields: object) -> str:
    return json.dumps({"id": key_id, "sha256": sha256_of(secret), **fields})


KEYS = Keys(
    SecretStr(
        "\n".join(
            [
                line("team", SECRET, requests_per_minute=60),
                line("team", OLD, requests_per_minute=60),
                line("scraper", OPERATOR, permissions=["operate"]),
            ]
        )
    )
)
CLOSED = Access(KEYS, required=True)


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


async def test_without_a_key_nothing_is_asked_and_no_body_is_read() -> None:
    application = Application(access=CLOSED)
    response = await application.post("/v1/answer", b"not json")
    assert refusal(response) == (401, "unauthorized", None)
    assert response.headers["www-authenticate"] == "Bearer"
    assert application.observer.outcomes == ["unauthorized"]
    assert application.retriever.queries == []


@pytest.mark.parametrize("given", ["Bearer", "Bearer wrong", "Basic dTpw", SECRET, "Bearer \xff"])
async def test_a_key_that_is_not_known_is_none(given: str) -> None:
    async with Application(access=CLOSED).client() as client:
        response = await client.get("/v1/models", headers={b"authorization": given.encode("latin-1")})
    assert refusal(response) == (401, "unauthorized", None)
    assert response.json()["error"]["type"] == "authentication_error"


@pytest.mark.parametrize("secret", [SECRET, OLD])
async def test_a_key_opens_the_answers_and_its_requests_are_counted(secret: str) -> None:
    application = Application(access=CLOSED)
    response = await application.post(
        "/v1/answer", {"question": "Who?", "documents": []}, authorization=f"bearer {secret}"
    )
    assert response.status_code == 200
    assert [seen.key_id for seen in application.observer.observations] == ["team"]


@pytest.mark.parametrize(("secret", "path"), [(SECRET, "/metrics"), (OPERATOR, "/v1/models")])
async def test_a_key_opens_only_what_it_is_for(secret: str, path: str) -> None:
    async with Application(access=CLOSED).client() as client:
        response = await client.get(path, headers=bearer(secret))
    assert refusal(response) == (403, "forbidden", None)


async def test_an_operators_key_opens_the_metrics() -> None:
    async with Application(access=CLOSED).client() as client:
        assert (await client.get("/metrics", headers=bearer(OPERATOR))).status_code == 200


@pytest.mark.parametrize("path", ["/", "/livez", "/readyz", "/docs", "/openapi.json"])
async def test_probes_and_documents_need_no_key(path: str) -> None:
    async with Application(access=CLOSED).client() as client:
        assert (await client.get(path)).status_code == 200


async def test_what_is_not_known_needs_a_key() -> None:
    async with Application(access=CLOSED).client() as client:
        assert (await client.get("/v1/new")).status_code == 401
        assert (await client.get("/v1/new", headers=bearer(SECRET))).status_code == 404


async def test_where_none_is_needed_any_key_will_do_and_a_known_one_is_noted() -> None:
    application = Application(access=Access(KEYS))
    for given in ("Bearer EMPTY", f"Bearer {SECRET}"):
        response = await application.post("/v1/answer", {"question": "Who?"}, authorization=given)
        assert response.status_code == 200
    assert [seen.key_id for seen in application.observer.observations] == [None, "team"]


@pytest.mark.parametrize(
    ("required", "is_outside", "needed"),
    [(None, True, True), (None, False, False), (True, False, True), (False, True, False)],
)
def test_a_key_is_needed_outside_loopback_unless_the_settings_say_otherwise(
    required: bool | None, is_outside: bool, needed: bool
) -> None:
    settings = AccessSettings(required=required)
    assert access_for(settings, KEYS, is_outside=is_outside).required is needed
    if needed:
        with pytest.raises(SettingsError, match="crag key add"):
            access_for(settings, Keys(), is_outside=is_outside)


def test_a_key_added_or_deleted_counts_without_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "keys.jsonl"
    file.write_text(line("team", OLD))
    keys = Keys(file=str(file))
    file.write_text(f"{line('team', OLD)}\n\n{line('team', SECRET)}\n")
    keys.reread()
    assert keys.find(OLD) and keys.find(SECRET)
    file.write_text(line("team", SECRET))
    keys.reread()
    assert not keys.find(OLD) and keys.find(SECRET)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "line 1: Invalid JSON"),
        ('{"id": "team", "sha256": "12"}', "line 1: sha256"),
        (f"\n{line('A team', SECRET)}", "line 2: id"),
        (line("team", SECRET, limit=3), "line 1: limit"),
        (f"{line('team', SECRET)}\n{line('team', OLD, requests_per_minute=1)}", "of team differ"),
        ("\n".join(line(f"k{i}", f"{i}") for i in range(1_001)), "1000 is the most"),
    ],
)
def test_a_keys_file_that_cannot_be_used_changes_nothing_and_shows_no_hash(
    text: str, words: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "keys.jsonl"
    file.write_text(line("team", SECRET))
    keys = Keys(file=str(file))
    file.write_text(text)
    keys.reread()
    assert keys.find(SECRET)
    assert words in caplog.text and sha256_of(SECRET) not in caplog.text
    with pytest.raises(SettingsError, match=words):
        Keys(file=str(file))


def test_a_missing_keys_file_is_named() -> None:
    with pytest.raises(SettingsError, match="cannot read the keys file nowhere"):
        Keys(file="nowhere")


async def test_the_file_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys_module, "_REREAD_S", 0.01)
    file = tmp_path / "keys.jsonl"
    file.write_text("")
    keys = Keys(file=str(file))
    file.write_text(line("team", SECRET))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(keys.watch(), 1)
    assert keys.find(SECRET)


def test_a_new_secret_cannot_be_guessed_nor_read_from_its_key() -> None:
    secret = new_secret()
    key = ApiKey(id="team", sha256=sha256_of(secret))
    assert len(secret) >= 48 and secret != new_secret()
    assert key.permissions == (Permission.ASK,) and secret not in key.model_dump_json()


def origin(*origins: str) -> Application:
    return Application(settings=ApiSettings(access=AccessSettings(cors_origins=origins)), access=CLOSED)


async def _preflight(application: Application) -> httpx.Response:
    headers = {
        "origin": "https://ui.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }
    async with application.client() as client:
        return await client.options("/v1/answer", headers=headers)


async def test_a_page_of_a_configured_origin_may_ask_and_read_its_refusal() -> None:
    application = origin("https://ui.example")
    assert (await _preflight(application)).status_code == 200
    response = await application.post("/v1/answer", {}, origin="https://ui.example")
    assert response.status_code == 401
    assert response.headers["access-control-allow-origin"] == "https://ui.example"


@pytest.mark.parametrize("origins", [(), ("https://other.example",)])
async def test_no_other_page_may(origins: tuple[str, ...]) -> None:
    response = await _preflight(origin(*origins))
    assert response.status_code in (400, 401)
    assert "access-control-allow-origin" not in response.headers


async def test_responses_are_not_framed_cached_or_run() -> None:
    async with Application().client() as client:
        answer, page = await client.get("/v1/models"), await client.get("/docs")
    for response in (answer, page):
        assert response.headers["x-frame-options"] == "DENY"
        assert response.headers["cache-control"] == "no-store"
        assert "frame-ancestors 'none'" in response.headers["content-security-policy"]
    assert "default-src 'none'" in answer.headers["content-security-policy"]


async def test_no_key_stands_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with Application(access=CLOSED).client() as client:
        await client.get("/v1/models", headers=bearer("crag-wrong-key-0123456789abcdef"))
    assert "crag-wrong-key" not in caplog.text
