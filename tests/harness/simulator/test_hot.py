"""What is compiled into its callers: leaves, and what every event does."""

import ast
import importlib
import inspect
import pkgutil

from harness import simulator

EXCEPTIONS = {
    "actions, which have one caller; as calls they slow events down under Linux's scheduler": {
        *("program.carry_out", "program.begin_operation", "program.end_wait", "program.ask"),
        *("program.start_wait", "program.read", "program.resume", "program.take_over", "program.receive"),
    },
    "what most events do; as calls they slow events down under every scheduler": {
        *("events.set_activity", "processor.compute", "processor.dispatch", "program.begin_computation"),
        *("program.begin_read", "program.spin", "messages.charge_messages", "messages.handle"),
        *("messages.handle_inbox", "messages.take_reply"),
    },
    "what many events do; as calls they slow events down under Linux's scheduler": {
        *("costs.below", "costs.drawn", "costs.overrun_ns", "eevdf.settle", "messages.take_arrival"),
        *("messages.spin_limit", "processor.leave", "processor.next_process", "processor.gives_way"),
        *("scheduler._highest", "scheduler.outranked", "scheduler.wake", "scheduler.slice_ends"),
        *("scheduler.best", "scheduler.stop"),
    },
    "what each quantum does at the level of jobs, with one caller; not measured": {"tree._advance"},
}
"""``hot`` functions that call others, by the reason."""


def hot_functions():
    """Each function that is compiled into its callers, by its name, with those that it calls."""
    for info in pkgutil.walk_packages(simulator.__path__, f"{simulator.__name__}."):
        module = importlib.import_module(info.name)
        for node in ast.parse(inspect.getsource(module)).body:
            match node:
                case ast.FunctionDef(name=name, decorator_list=[ast.Name(id="hot")]):
                    calls = [ast.unparse(each.func) for each in ast.walk(node) if isinstance(each, ast.Call)]
                    called = [eval(call, dict(vars(module))) for call in calls]
                    yield f"{info.name.rpartition('.')[2]}.{name}", getattr(module, name), called


def test_a_function_that_is_compiled_into_its_callers_is_a_leaf_or_an_exception():
    functions = list(hot_functions())
    hot = [function for _, function, _ in functions]
    not_leaves = {name for name, _, called in functions if any(each in hot for each in called)}
    assert not_leaves == set().union(*EXCEPTIONS.values())
