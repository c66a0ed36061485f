"""`agentgym/sql-v1` and `agentgym/sql-query-v1`: an SQLite database inside the sandbox, and tools to query it."""

from __future__ import annotations

from agentgym import tool

from .reading import ReadOnlySqlEnvironment


class Sql(ReadOnlySqlEnvironment):
    """Questions about an SQLite database, read-only, inside a sandbox. Not isolated: SQL can read every table.

    Task parameters: `database`, the name of an asset such as "sql/store" or the path of an SQLite file;
    `seed`, an integer given to the asset (optional); `show_schema`, true to put the tables and their columns into the
    system message, or "statements" for the statements that create them, with which the agent has no tools `tables` and
    `describe` (optional). Or `tables`, with their rows (see `database.py`).
    """

    reward = "sql"
    task_set = "sql/store-v1"
    system = "Answer with the bare value, found by SQL."

    @tool(final=True, inline=True)
    def answer(self, text: str) -> str:
        """Give the answer."""
        return "Answered."


class SqlQuery(ReadOnlySqlEnvironment):
    """Text to SQL: the answer is a query, tried on SQLite in a sandbox. Not isolated: SQL can read every table.

    Task parameters as for `agentgym/sql-v1`. The submitted query is not run here: the judge runs it in a new
    environment, and also on other databases if the task's truth names any.
    """

    reward = "sql_execution"
    task_set = "sql/schemas-v1"
    system = "Explore the database, then submit one SELECT that answers the question."

    @tool(final=True, inline=True)
    def submit(self, sql: str) -> str:
        """Give the SELECT that answers the question."""
        return "Submitted."
