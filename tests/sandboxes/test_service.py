"""`agentgym/service-v1`: the domains' rules, the scripted customer, its telephone, and customers played by models."""

from __future__ import annotations

import json

import pytest
from model_server import serving

import agentgym
from agentgym import Call, EpisodeManager, Message, RolloutConfig, ScriptedPolicy, Task, load_task_set
from agentgym.errors import TaskError
from agentgym.messages import StopReason
from agentgym.methods.users import END
from agentgym.sandboxes.service.customer import customer

WISHES = {
    "persona": "You are brief.",
    "wants": "You want to be told why your telephone does not work, and to have a line without costs.",
    "requests": ["My telephone does not work.", "And a line without costs, please."],
    "facts": {"number": "My number is 123.", "telephone": "I have it in my hand."},
    "phone_id": 1,
}


def task(domain="telecom", **parameters):
    given = {"domain": domain, "records": f"service/{domain}", "seed": 0, "customer": WISHES, **parameters}
    return Task("t", "agentgym/service-v1", WISHES["requests"][0], parameters=given, truth={"changes": [], "told": []})


async def opened(domain="telecom", **parameters):
    environment = agentgym.make("agentgym/service-v1")
    await environment.reset(task(domain, **parameters).public(), seed=0)
    return environment


async def call(environment, name, **arguments):
    return (await environment.call(Call(name, arguments))).content


async def say(environment, text):
    return [message.text for message in await environment.respond(Message("assistant", text))]


async def test_the_agent_has_the_policy_and_the_tools_of_its_domain_alone():
    for domain, name in (("retail", "cancel_order"), ("travel", "add_bags"), ("telecom", "resume_line")):
        environment = agentgym.make("agentgym/service-v1")
        opening = await environment.reset(task(domain).public(), seed=0)
        assert [message.role for message in opening] == ["system", "user"]
        assert "Today is 2026-01-05." in opening[0].text
        assert name in environment.tools
        assert "hand_over" in environment.tools
        assert "look" not in environment.tools, "the telephone is the customer's"
        await environment.close()


async def test_the_customer_answers_agrees_uses_its_telephone_goes_on_and_leaves():
    environment = await opened()
    before = environment.store.get("phones", 1)
    assert await say(environment, "What is your number?") == ["My number is 123."]
    assert await say(environment, "I will do it. Please confirm.") == ["Yes, please."]
    (screen,) = await say(environment, "Please look at your telephone.")
    assert screen.startswith(f"My telephone says: airplane mode {'on' if before['airplane_mode'] else 'off'}")
    await say(environment, "Please turn airplane mode on.")
    assert environment.store.get("phones", 1)["airplane_mode"] is True
    assert await say(environment, "Is there anything else?") == ["And a line without costs, please."]
    (last,) = await say(environment, "That is not possible. Is there anything else?")
    assert environment.ended
    record = json.loads(last.partition("Record: ")[2])
    assert record["user_calls"] == 2
    assert len(record["changes"]) == (not before["airplane_mode"])
    assert await say(environment, "Hello?") == []


async def test_a_customer_who_understands_nothing_leaves():
    script = customer(WISHES)
    messages = [Message("system", "s"), Message("user", "Hello."), Message("assistant", WISHES["requests"][0])]
    answers = []
    for _ in range(3):
        messages.append(Message("user", "Colourless green ideas."))
        answers.append(script(messages))
        messages.append(Message("assistant", str(answers[-1])))
    assert answers[0] == answers[1]
    assert answers[2].endswith(END)


async def test_the_tools_refuse_what_the_records_do_not_allow():
    shop = await opened("retail")
    pending, recent = 1001, 1002
    assert "pending, not" not in await call(shop, "cancel_order", order_id=pending, reason="no longer needed")
    assert "not pending" in await call(shop, "cancel_order", order_id=pending, reason="no longer needed")
    assert "not pending" in await call(shop, "change_address", order_id=recent, address="x")
    assert "has not been delivered" in await call(shop, "return_article", article_id=1)
    assert "registered" in await call(shop, "return_article", article_id=3)
    assert "or has already been returned or exchanged" in await call(shop, "return_article", article_id=3)
    assert "same product" in await call(shop, "exchange_article", article_id=4, variant_id=1)
    assert "no such customer" in await call(shop, "find_customer", email="")
    airline = await opened("travel")
    await call(airline, "cancel_booking", booking_id=501)
    assert "is cancelled" in await call(airline, "add_bags", booking_id=501, count=1)
    assert "same route" in await call(airline, "change_flight", booking_id=502, flight_id=1)
    telecom = await opened()
    line = next(telecom.store.rows("lines", status="suspended"))
    assert "A bill is open" in await call(telecom, "resume_line", line_id=line["id"])
    (bill,) = telecom.store.rows("bills", customer_id=line["customer_id"], paid=False)
    assert await call(telecom, "charge_bill", bill_id=bill["id"]) == "Paid."
    assert "is paid" in await call(telecom, "charge_bill", bill_id=bill["id"])
    assert await call(telecom, "resume_line", line_id=line["id"]) == "Resumed."


async def test_money_that_went_to_and_fro_counts():
    """A booking that is changed, and changed back, is as it was; its customer was charged twice."""
    airline = await opened("travel")
    booking = next(iter(airline.store.rows("bookings", fare="flex")))
    before = airline.store.get("flights", booking["flight_id"])
    route = airline.store.rows("flights", origin=before["origin"], target=before["target"])
    other = next(flight for flight in route if flight["seats"] and flight["price"] != before["price"])
    for flight in (other, before):
        assert "difference" in await call(airline, "change_flight", booking_id=booking["id"], flight_id=flight["id"])
    assert airline.store.get("bookings", booking["id"]) == booking
    assert [change["effect"] for change in airline.store.changes().values()] == ["charged", "charged"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"domain": "banking"}, "Choose from retail, travel, telecom"),
        ({"customer": {}}, "is not valid: KeyError"),
        ({"behaviour": {"mistakes": 2}}, "is not valid: ValueError"),
        ({"behaviour": {"mood": 1}}, "is not valid: TypeError"),
    ],
)
async def test_a_task_without_a_customer_is_refused(parameters, message):
    with pytest.raises(TaskError, match=message):
        await agentgym.make("agentgym/service-v1").reset(task(**{"domain": "telecom", **parameters}).public(), seed=0)


async def test_a_model_plays_the_customer_and_one_that_fails_is_nobody_s_result():
    """The same task and oracle, with a customer from a chat API; its server then answers with nothing but errors."""
    task_set = load_task_set("service/desk-v1")
    chosen = next(task for task in task_set["train"] if task.tags[:2] == ("travel", "level_1"))
    steps = iter(range(1000))

    def reply(text):
        return {"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}

    def play(server):
        user = {"name": "chat_api", "base_url": server.url + "/v1", "model": "m"}
        config = RolloutConfig(environment=lambda: agentgym.make("agentgym/service-v1", user=user))
        return EpisodeManager(lambda task: ScriptedPolicy(task_set.oracle(task)), config).collect([chosen])

    says = sum(move[0] == "say" for move in json.loads(chosen.truth["moves"]))
    with serving(*[reply(f"As you say {next(steps)}.") for _ in range(says - 1)], reply(f"Bye. {END}")) as server:
        (served,) = await play(server)
    assert served.success == 1.0
    assert served.stop_reason is StopReason.ENVIRONMENT
    assert served.outcome["user_messages"] == says + 1
    system = server.bodies[0]["messages"][0]["content"]
    assert chosen.parameters["customer"]["wants"] in system
    with serving(reply(" ")) as server:
        (failed,) = await play(server)
    assert failed.stop_reason is StopReason.INFRA_ERROR
    assert "said nothing in 3 attempts" in failed.error
    assert failed.outcome == {}
