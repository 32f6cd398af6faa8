"""The fluent face: Agent, run_agent, @tool."""
