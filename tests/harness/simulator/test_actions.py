"""One place decides what a simulated process does next; the architecture's page has its tables."""

import ast
import inspect

from harness.simulator.processes import model, program

FUNCTIONS = {
    node.name: node
    for node in ast.parse(inspect.getsource(program)).body
    if isinstance(node, ast.FunctionDef)
}


def numbered_with(first):
    """The names of the model that are numbered together, from this one on."""
    for node in ast.parse(inspect.getsource(model)).body:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=name), *others])]) if name == first:
                return [name, *(other.id for other in others)]
    raise AssertionError(first)


ACTIONS = numbered_with("DONE")
ACTIVITIES = numbered_with("STARTING") + numbered_with("READING")


def actions(expression):
    """The actions that the value of an expression can be."""
    match expression:
        case ast.Attribute(value=ast.Name(id="m"), attr=name):
            return {name}
        case ast.IfExp(body=one, orelse=other):
            return actions(one) | actions(other)
        case ast.Subscript(value=ast.Name(id="AFTER")):
            return {ACTIONS[action] for action in program.AFTER}
        case ast.Call(func=ast.Name(id=name)):
            returns = (node for node in ast.walk(FUNCTIONS[name]) if isinstance(node, ast.Return))
            return set().union(*(actions(node.value) for node in returns))
    raise AssertionError(f"not an action: {ast.unparse(expression)}")


def branches():
    """The action and the statements of each branch of ``carry_out``."""
    (loop,) = (node for node in FUNCTIONS["carry_out"].body if isinstance(node, ast.While))
    rest = loop.body
    while rest:
        (branch,) = rest
        yield branch.test.comparators[0].attr, branch.body
        rest = branch.orelse


def drawn():
    """The rows of the page's table."""
    for action, statements in branches():
        done_by = statements[0].value.func.id
        following = sorted(actions(statements[-1].value), key=ACTIONS.index)
        meaning = ast.get_docstring(FUNCTIONS[done_by]).partition("\n")[0]
        yield f"| `{action}` | {meaning} | {', '.join(f'`{name}`' for name in following)} |"


def test_the_page_has_the_table_of_actions(golden):
    golden.table("architecture.md", "| action | what happens | next |", drawn())


def test_the_page_has_the_table_of_activities(golden):
    following = zip(ACTIVITIES, program.AFTER, strict=True)
    rows = [
        f"| `{activity}` | `{ACTIONS[action]}` |" for activity, action in following if action != model.DONE
    ]
    golden.table("architecture.md", "| activity | when its time is over |", rows)
