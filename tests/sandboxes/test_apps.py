"""`agentgym/apps-v1` and its code: changes by digest, counters, isolation of the records, and code that misbehaves."""

from __future__ import annotations

import json

import pytest

import agentgym
from agentgym import Call, Task
from agentgym.errors import TaskError
from agentgym.sandboxes.apps.environment import MAX_CALLS
from agentgym.sandboxes.record_app import StoreApp
from agentgym.sandboxes.record_store import Store, TableSchema

SCHEMA = {
    "lists": TableSchema("lists", ("name",)),
    "items": TableSchema("items", ("list_id", "text", "seen"), (("list_id", "lists"),), frozenset({"seen"})),
}
SNAPSHOT = {"lists": {1: {"id": 1, "name": "old"}}, "items": {7: {"id": 7, "list_id": 1, "text": "a", "seen": False}}}


@pytest.fixture
def store():
    return Store(SNAPSHOT, SCHEMA)


def task(environment="agentgym/apps-v1", **parameters):
    return Task("t", environment, "Do it.", parameters={"records": "apps/year", "seed": 0, **parameters})


@pytest.fixture
async def apps():
    environment = agentgym.make("agentgym/apps-v1")
    await environment.reset(task(), seed=0)
    yield environment
    await environment.close()


async def call(environment, app, api, **arguments):
    return await environment.call(Call("call", {"app": app, "api": api, "arguments": arguments}))


def recorded(text):
    return json.loads(text.partition("Record: ")[2])


# ---- the store


def test_what_is_undone_or_incidental_is_no_change(store):
    store.update("items", 7, text="b")
    store.update("items", 7, text="a", seen=True)
    store.delete("items", store.insert("items", list_id=1, text="x", seen=False)["id"])
    assert store.changes() == {}
    assert SNAPSHOT["items"][7]["seen"] is False


def test_new_rows_are_compared_by_content_and_not_by_their_ids():
    """Two lists with an item each, made in either order: a reference to a new row is that row's content."""
    stores = [Store(SNAPSHOT, SCHEMA) for _ in range(3)]
    for each, names in zip(stores, (("x", "y"), ("y", "x"), ("x", "x")), strict=True):
        for name in names:
            each.insert("items", list_id=each.insert("lists", name=name)["id"], text="t", seen=False)
    first, second, third = (each.changes() for each in stores)
    assert first == second
    assert len(third) == 4, "a row that was added twice is two changes"
    assert third != first


def test_a_store_goes_on_from_its_data(store):
    store.insert("lists", name="new")
    store.delete("items", 7)
    copy = Store(SNAPSHOT, SCHEMA)
    copy.restore(json.loads(json.dumps(store.data())))
    assert copy.changes() == store.changes()
    assert copy.insert("lists", name="third")["id"] == 3
    with pytest.raises(KeyError, match="items has no row 7"):
        copy.delete("items", 7)


def test_a_row_needs_exactly_its_columns(store):
    with pytest.raises(KeyError, match="A row of lists must have"):
        store.insert("lists", title="x")
    with pytest.raises(KeyError, match="no row 1, or the row lacks"):
        store.update("lists", 1, title="x")


# ---- the apps


def test_every_api_is_documented_and_every_table_belongs_to_one_app():
    kinds = agentgym.load("environments", "agentgym/apps-v1").kinds
    assert len({kind.name for kind in kinds}) == 8
    tables = [table.name for kind in kinds for table in kind.tables]
    assert len(tables) == len(set(tables))
    for kind in kinds:
        assert issubclass(kind, StoreApp)
        assert kind.summary()
        for api, tool in kind.apis.items():
            assert f"{kind.name}.{api}(" in kind.documentation()
            assert tool.description in kind.documentation(api)


async def test_the_record_counts_how_the_apis_were_used(apps):
    await apps.call(Call("docs", {"app": "mail"}))
    await apps.call(Call("docs", {"app": "notes", "api": "read"}))
    for _ in range(2):
        assert "no id 9999" in (await call(apps, "mail", "read", mail_id=9999)).content
    assert (await call(apps, "mail", "read", mail_id=1)).ok
    assert (await call(apps, "notes", "read", note_id=1)).ok
    assert "Expected add(" in (await call(apps, "notes", "add", heading="x")).content
    final = await apps.call(Call("finish", {}))
    assert recorded(final.content) == {
        "changes": [],  # the mail that was read is no longer unread, which is no change
        "calls": 5,
        "failures": 3,
        "undocumented": 1,
        "invented_ids": 2,
        "recoveries": 1,
    }
    assert "nothing changes any more" in (await call(apps, "notes", "add", title="x", body="y")).content


async def test_unknown_apps_and_apis_are_named_with_those_that_there_are(apps):
    assert "There are: mail, calendar" in (await call(apps, "post", "send")).content
    assert "It has: search, read, send" in (await call(apps, "mail", "write")).content
    assert "It has: search, read, send" in (await apps.call(Call("docs", {"app": "mail", "api": "write"}))).content


async def test_what_is_bought_is_paid_and_comes_back_when_it_is_cancelled(apps):
    before = (await call(apps, "bank", "balance")).content
    order = json.loads((await call(apps, "shop", "buy", product_id=1, quantity=2)).content)
    assert (await call(apps, "bank", "balance")).content != before
    assert (await call(apps, "shop", "cancel", order_id=order["id"])).ok
    assert (await call(apps, "bank", "balance")).content == before
    assert "cancelled: only orders" in (await call(apps, "shop", "cancel", order_id=order["id"])).content
    assert "less than 1000000" in (await call(apps, "bank", "pay", party="Me", amount=1_000_000)).content


async def test_a_mail_that_was_sent_counts_though_it_is_deleted(apps):
    """The sender no longer has it; whoever got it does."""
    sent = json.loads((await call(apps, "mail", "send", to="a@b.example", subject="s", body="b")).content)
    asked_for = apps.store.changes().keys()
    assert (await call(apps, "mail", "delete", mail_id=sent["id"])).ok
    (left,) = apps.store.changes().values()
    assert left == {"effect": "mail sent", "recipient": "a@b.example", "subject": "s", "body": "b"}
    checkpoint = await apps.checkpoint()
    await apps.restore(task(), checkpoint, seed=0)
    await call(apps, "mail", "send", to="a@b.example", subject="s", body="b")
    assert len(asked_for - apps.store.changes().keys()) == 0
    assert len(apps.store.changes()) == 3, "it was sent twice"


@pytest.mark.parametrize(
    ("body", "message"), [("x" * 20_000, "at most 20000 are taken"), ([[[[[[[[[1]]]]]]]]], "more than 8 levels deep")]
)
async def test_arguments_of_a_call_are_bounded(apps, body, message):
    assert message in (await call(apps, "notes", "add", title="t", body=body)).content
    assert apps.store.changes() == {}
    assert apps.conduct.failures == 1


async def test_an_episode_does_not_see_what_another_one_changes(apps):
    other = agentgym.make("agentgym/apps-v1")
    await other.reset(task(), seed=0)
    await call(apps, "contacts", "delete", contact_id=1)
    assert "no id 1" in (await call(apps, "contacts", "delete", contact_id=1)).content
    assert (await call(other, "contacts", "delete", contact_id=1)).ok
    await apps.reset(task(), seed=0)
    assert (await call(apps, "contacts", "delete", contact_id=1)).ok


async def test_the_potential_is_the_share_of_changes_that_were_asked_for_or_are_there(apps):
    await call(apps, "notes", "add", title="x", body="y")
    (goal,) = apps.store.changes()
    await apps.reset(task(goal=[goal, "0"]), seed=0)
    assert await apps.potential() == 0.0
    await call(apps, "notes", "add", title="x", body="y")
    assert await apps.potential() == 0.5
    await call(apps, "notes", "delete", note_id=1)
    assert await apps.potential() == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"records": None}, "Give the name of an asset"),
        ({"seed": "x"}, "Give the name of an asset"),
        ({"goal": "x"}, "list of digests"),
        ({"records": "sql/store"}, "cannot make records for seed 0"),
    ],
)
async def test_parameters_that_name_no_records_are_refused(parameters, message):
    with pytest.raises(TaskError, match=message):
        await agentgym.make("agentgym/apps-v1").reset(task(**parameters), seed=0)


# ---- code


@pytest.fixture
async def coding():
    environment = agentgym.make("agentgym/apps-code-v1")
    await environment.reset(task("agentgym/apps-code-v1"), seed=0)
    yield environment
    await environment.close()


async def run(environment, code):
    return (await environment.call(Call("run", {"code": code}))).content


@pytest.mark.needs_namespaces
async def test_code_calls_apis_and_reads_what_they_refuse(coding):
    assert "Ada" in await run(coding, "print([p['name'] for p in apis.contacts.search('Ada')['results']], 'Ada')")
    assert "refused: mails has no id 99999" in await run(
        coding, "try:\n    apis.mail.read(99999)\nexcept AppError as error:\n    print('refused:', error)"
    )
    assert "has no API 'write'" in await run(coding, "apis.mail.write()")
    await run(coding, "for n in range(3):\n    apis.notes.add(title='t', body=str(n))")
    assert len(coding.store.changes()) == 3


FORGED = "import os; os.write(3, b'%s\\n'); os._exit(0)"
"""Code that writes the last line of the channel itself."""


@pytest.mark.needs_namespaces
async def test_code_that_breaks_its_process_is_a_result_and_the_next_run_works(coding):
    """Nothing that code does to its interpreter, its channel or its output is a failure of the infrastructure."""
    attacks = {
        "import os; print('here', flush=True); os._exit(0)": "here",
        "import os; os.kill(os.getpid(), 9)": "signal 9",
        "import os; os.write(3, b'no json\\n')": "",
        "import os; [os.write(fd, b'{\"output\": 1}\\n') for fd in range(3, 9)]": "",
        "import os; os.kill(os.getppid(), 9)": "broke off",
        FORGED % '{"output": "", "cut": 0, "status": 1e999}': "broke off",
        FORGED % '{"output": "", "cut": 0, "status": -1e999}': "broke off",
        FORGED % '{"output": "", "cut": 0, "status": NaN}': "broke off",
        FORGED % f'{{"output": {"[" * 99}{"]" * 99}, "cut": 0, "status": 1}}': "broke off",
        FORGED % f"{'[' * 9999}{']' * 9999}": "broke off",
        FORGED % f'{{"status": {"9" * 5000}}}': "broke off",
        FORGED % '"app"': "broke off",
        FORGED % r'{"output": "\\ud800", "cut": 0, "status": 0}': "",
        "apis.notes.add(title='t', body='x' * 10**6)": "at most 20000 are taken",
        f"for n in range({MAX_CALLS + 5}): apis.bank.balance()": f"may call APIs {MAX_CALLS} times",
        "print('x' * 10**6)": "[output cut]",
        "x = bytearray(10**10)": "",
        "import os\nwhile True:\n    os.fork()": "",
        "open('left', 'w').write('x'); print(open('left').read())": "x",
        "print(open('left').read())": "No such file",
    }
    for code, expected in attacks.items():
        assert expected in await run(coding, code), code
        assert await run(coding, "print(6 * 7)") == "42", code
