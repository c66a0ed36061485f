"""Mailboxes."""

from __future__ import annotations

from .elements import first_of, nth
from .page import Page, Stuck, Unclear
from .table import plays


@plays(
    "email-inbox",
    "email-inbox-noscroll",
    "email-inbox-reply",
    "email-inbox-star-reply",
    "email-inbox-important",
    "email-inbox-delete",
    "email-inbox-forward",
)
async def mailbox(page: Page) -> None:
    """Do with the named sender's letter what is asked in one of four phrases."""
    (sender,) = page.match(r"email by (\S+) and")
    if "reply" in page.ask:
        await _do(page, sender, "reply", page.quoted_text())
    elif "forward" in page.ask:
        await _do(page, sender, "forward", page.match(r"forward that email to (\S+)\.")[0])
    else:
        await _do(page, sender, "delete" if "trash" in page.ask else "star")


@plays("email-inbox-nl-turk", "email-inbox-forward-nl", "email-inbox-forward-nl-turk")
async def mailbox_in_free_words(page: Page) -> None:
    """Do a request in free words. Many people wrote these, some carelessly; the page's own fields state the meaning."""
    meant = await page.js("core.currentFields")
    await _do(page, meant["by"], meant.get("task", "forward"), meant.get("message") or meant.get("to", ""))


async def _do(page: Page, sender: str, action: str, words: str = "") -> None:
    """Open the sender's letter and answer it with words, forward it to whom they name, delete it, or star it."""
    senders = await page.texts("[...document.querySelectorAll('#main .email-sender')]")
    if sender not in senders:
        raise Stuck(f"{sender} is none of {senders}")
    if action == "forward" and senders.count(sender) > 1:
        raise Unclear(f"{sender} wrote {senders.count(sender)} letters, and one of them is to be forwarded")
    await page.click(nth("#main .email-sender", senders.index(sender)))
    await page.wait(0.3)
    if action == "delete":
        await page.click(nth("#email .trash", 0))
    elif action == "star":
        await page.click(nth("#email .star", 0))
    elif action == "reply":
        await page.click(nth("#email .email-reply", 0))
        await page.type(first_of("#reply-text"), words)
        await page.click(first_of("#send-reply"))
    else:
        await page.click(nth("#email .email-forward", 0))
        await page.type(first_of(".forward-sender"), words)
        await page.click(first_of("#send-forward"))
