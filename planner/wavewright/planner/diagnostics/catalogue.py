"""Every diagnostic there is: code, kind, family, what it means and how to mend it.

A *code* is stable and is what people and tools refer to; a *kind* is the same in a word, for programs that match
on it. Nothing reports a code that is not here, and each has a page in `docs/reference/diagnostics/`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from wavewright.planner.types import Severity

Family: TypeAlias = Literal[
    "document", "tools", "references", "graph", "goal rules", "safety", "budget", "lint"
]

FAMILIES: dict[str, Family] = {
    "E1": "document",
    "E2": "tools",
    "E3": "references",
    "E4": "graph",
    "E5": "goal rules",
    "E6": "safety",
    "E7": "budget",
    "W8": "lint",
}
"""Families by the first two characters of a code."""

RESERVED_FAMILIES: frozenset[Family] = frozenset({"safety"})
"""Families whose codes are spoken for and that nothing reports yet: tainted text."""


class DiagnosticEntry(NamedTuple):
    """One code."""

    code: str
    kind: str
    title: str
    meaning: str
    """What is wrong, and why it matters."""
    fix: str
    """What the author can do."""

    @property
    def family(self) -> Family:
        """The family, by the code's first two characters."""
        return FAMILIES[self.code[:2]]

    @property
    def severity(self) -> Severity:
        """`W…` warns; everything else keeps the plan from running."""
        return "warning" if self.code.startswith("W") else "error"


_ENTRIES = (
    # --- E1: the document -----------------------------------------------------------------------------------
    DiagnosticEntry(
        "E101",
        "not_json",
        "The text is not JSON",
        "The text could not be read as JSON, so there is no plan to look at.",
        "Mend the text at the place shown: a missing comma, quote or bracket is the usual cause.",
    ),
    DiagnosticEntry(
        "E102",
        "truncated",
        "The text ends too early",
        "The text stops inside the plan. Closing the brackets would drop whatever came after, perhaps the one step"
        " that mattered, so a cut plan is never completed.",
        "Write the plan again, whole; where a model wrote it, allow it more output.",
    ),
    DiagnosticEntry(
        "E103",
        "duplicate_key",
        "A key stands twice in one object",
        "Two readers may disagree on which of the two values counts, so neither is taken.",
        "Remove one of them.",
    ),
    DiagnosticEntry(
        "E104",
        "unknown_field",
        "A field that does not exist",
        "Plans are closed to fields they do not know, because a misspelt field would silently do nothing.",
        "Correct the name, or remove the field; the message lists those that exist.",
    ),
    DiagnosticEntry(
        "E105",
        "missing_field",
        "A required field is missing",
        "The object cannot mean anything without this field.",
        "Add the field.",
    ),
    DiagnosticEntry(
        "E106",
        "wrong_type",
        "A value of the wrong type",
        'The field takes another type of value. Nothing is converted: `"5"` is no number and `1` is no truth value.',
        "Write a value of the type that the message names.",
    ),
    DiagnosticEntry(
        "E107",
        "bad_value",
        "A value outside its bounds",
        "The type is right, but the value is not one that the field takes.",
        "Choose a value inside the bounds that the message names.",
    ),
    DiagnosticEntry(
        "E108",
        "too_large",
        "The text is too large",
        "The text is longer than the reader's limit, which keeps one answer from exhausting memory.",
        "Shorten it; what is bulky belongs in the inputs or in a tool's output.",
    ),
    DiagnosticEntry(
        "E109",
        "too_deep",
        "The text is nested too deeply",
        "Lists and objects are nested deeper than the reader's limit.",
        "Flatten the structure: a plan's steps are a flat list.",
    ),
    DiagnosticEntry(
        "E110",
        "bad_encoding",
        "The text is not UTF-8",
        "The bytes are not text in UTF-8, the only encoding that plans are read in.",
        "Save the file as UTF-8.",
    ),
    DiagnosticEntry(
        "E111",
        "bad_unicode",
        "A character that text cannot hold",
        "Half of a surrogate pair, or a NUL: writers, databases and terminals break on them.",
        "Remove the character.",
    ),
    DiagnosticEntry(
        "E112",
        "nonfinite_number",
        "A number that is not finite",
        "NaN and infinities are no JSON, and `1e999` becomes one in many readers.",
        "Write a finite number, or `null` where there is none.",
    ),
    DiagnosticEntry(
        "E113",
        "number_out_of_range",
        "An integer too large to be exact",
        "Integers beyond 2^53 - 1 are not exact in every reader.",
        "Write it as a string if it is an identifier.",
    ),
    DiagnosticEntry(
        "E114",
        "no_plan",
        "No plan in the text",
        "Nothing in the text has the shape of a plan.",
        "Answer with one JSON object that has `steps`.",
    ),
    DiagnosticEntry(
        "E115",
        "ambiguous",
        "More than one plan in the text",
        "The text holds plans that differ. Taking the first or the last would be a guess.",
        "Keep one plan.",
    ),
    DiagnosticEntry(
        "E116",
        "yaml_alias",
        "A YAML alias",
        "Aliases can make millions of nodes from a few bytes, so they are not read.",
        "Write the value out where it is used.",
    ),
    DiagnosticEntry(
        "E117",
        "yaml_tag",
        "A YAML tag",
        "Tags ask the reader to build something other than data.",
        "Remove the tag; quote the value where it should be text.",
    ),
    DiagnosticEntry(
        "E118",
        "bad_step_id",
        "An id that no step may have",
        "Ids become names in expressions, file names and keys: an ASCII letter, then letters, digits and"
        " underscores, 63 characters at most, and none of the words that expressions use.",
        "Give the step another id.",
    ),
    DiagnosticEntry(
        "E119",
        "duplicate_step_id",
        "Two steps with one id",
        "Ids are unique without regard to case, because file systems and people mix the cases up.",
        "Rename one of the two, and the references to it.",
    ),
    DiagnosticEntry(
        "E120",
        "empty_plan",
        "A plan without steps",
        "An empty list of steps would count as done without anything having been done.",
        "Add a step, or answer `cannot_plan` with the reason.",
    ),
    DiagnosticEntry(
        "E121",
        "planner_error",
        "The planner gave no plan",
        "The planner answered that it cannot plan, or asked something, where a plan was needed. Steps beside such"
        " an answer are not run.",
        "Answer the question, or change the goal or its tools.",
    ),
    DiagnosticEntry(
        "E122",
        "duplicate_gate_id",
        "Two gates with one id",
        "Records, recipes and patches name gates by id.",
        "Rename one of the two.",
    ),
    DiagnosticEntry(
        "E123",
        "bad_gate",
        "A gate that cannot be asked",
        "A gate of a plan names one step with `on` and is of exactly one kind; a gate of a goal template may name a"
        " tool with `on_tool` instead, and its id holds no `__`, which is what its id and a step's are joined with.",
        "Name one step, choose one kind.",
    ),
    DiagnosticEntry(
        "E124",
        "not_yaml",
        "The text is not YAML",
        "The text could not be read as YAML, so there is no document to look at.",
        "Mend the text at the place shown: indentation and unquoted `:` or `{` are the usual causes.",
    ),
    DiagnosticEntry(
        "E125",
        "unreadable_file",
        "A file that cannot be read",
        "There is no such file, or it is a folder, or nobody gave permission to read it.",
        "Correct the path; near names are suggested.",
    ),
    DiagnosticEntry(
        "E126",
        "not_toml",
        "The text is not TOML",
        "The name ends in `.toml`, and the text could not be read as TOML, so there is no document to look at.",
        "Mend the text at the place shown: text without quotes and a key that stands twice are the usual causes.",
    ),
    # --- E2: tools ------------------------------------------------------------------------------------------
    DiagnosticEntry(
        "E201",
        "unknown_tool",
        "A tool that does not exist",
        "No tool of this name is installed. Near names are suggested and never taken.",
        "Use one of the tools that exist; the message suggests the nearest.",
    ),
    DiagnosticEntry(
        "E202",
        "tool_not_allowed",
        "A tool that this goal does not allow",
        "The tool exists, but the goal's allow-list does not name it, and no plan can widen that list.",
        "Use one of the goal's tools, or add the tool to the goal template.",
    ),
    DiagnosticEntry(
        "E203",
        "unknown_argument",
        "An argument that the tool does not take",
        "The tool's input schema has no parameter of this name.",
        "Correct the name, or remove the argument; the message lists the parameters with their types.",
    ),
    DiagnosticEntry(
        "E204",
        "missing_argument",
        "A required argument is missing",
        "The tool cannot be called without it.",
        "Add the argument, as a literal or as a reference.",
    ),
    DiagnosticEntry(
        "E205",
        "bad_params",
        "An argument that does not fit the tool's schema",
        "A literal value is of the wrong type or outside the bounds that the tool's input schema sets.",
        "Write a value that fits; the message says what the schema wants.",
    ),
    DiagnosticEntry(
        "E206",
        "reserved_argument",
        "An argument that only the engine sets",
        "The goal sets this argument on its terminal steps, so that no plan can loosen what is required of them.",
        "Remove the argument; it is filled in when the plan is bound to its goal.",
    ),
    DiagnosticEntry(
        "E207",
        "bad_prompt",
        "A worker whose prompt cannot be rendered",
        "The prompt asks for a value that the worker is not given, or is no valid template: the step fails whenever it"
        " runs, perhaps after others were paid for.",
        "Correct the template at the place that the message names; it is given the worker's input fields as `inputs`.",
    ),
    DiagnosticEntry(
        "E208",
        "no_model",
        "A run whose step needs a model, and none is configured",
        "The step's tool asks a model, and here none is configured. The run ends before anything is called."
        " Checks and dry runs report the same as `W806`.",
        "Set `WAVEWRIGHT_MODEL` and the model's key, or make the step `optional`.",
    ),
    # --- E3: references -------------------------------------------------------------------------------------
    DiagnosticEntry(
        "E301",
        "unknown_step",
        "A reference to a step that does not exist",
        "The expression reads the output of a step that the plan does not have.",
        "Correct the id; the message suggests the nearest.",
    ),
    DiagnosticEntry(
        "E302",
        "unknown_input",
        "A reference to an input that does not exist",
        "The goal gives the plan no input of this name.",
        "Use one of the inputs that exist, or add it to the job.",
    ),
    DiagnosticEntry(
        "E303",
        "unknown_name_or_field",
        "A name or a field that does not exist",
        "The expression uses a name that is not defined here, or a field that the output's schema does not have.",
        "Correct the name; the message lists the fields that exist with their types.",
    ),
    DiagnosticEntry(
        "E304",
        "type_mismatch",
        "A reference of a type that does not fit",
        "What the expression gives is not what the parameter takes.",
        "Read another field, or convert the value in the expression.",
    ),
    DiagnosticEntry(
        "E305",
        "item_outside_for_each",
        "`item` or `index` outside `for_each`",
        "Only a step with `for_each` is called once an item.",
        "Give the step a `for_each`, or read the list itself.",
    ),
    DiagnosticEntry(
        "E306",
        "unguarded_read",
        "Reading a step that may be absent",
        "The step is optional or conditional, so there may be no output to read, and nothing says what happens then.",
        "Guard the read with `has(steps.…)`, in the expression or in the reading step's `when`.",
    ),
    DiagnosticEntry(
        "E307",
        "bad_expression",
        "An expression that cannot be read",
        "The text between `${` and `}` is not an expression of the language (CEL).",
        "Mend the expression at the place shown; a literal `${` is written `$${`.",
    ),
    DiagnosticEntry(
        "E308",
        "not_a_condition",
        "A condition that is not true or false",
        "`when`, a gate's `check` and a cap's `when` must give true or false.",
        "Compare the value with something, or test it with `has()` or `size() > 0`.",
    ),
    DiagnosticEntry(
        "E309",
        "not_a_list",
        "`for_each` over something that is no list",
        "A step with `for_each` is called once an item of a list.",
        "Give a list, or one whole `${…}` that gives a list.",
    ),
    DiagnosticEntry(
        "E310",
        "expression_too_large",
        "An expression that is too large",
        "Expressions are limited in length and depth, so that checking and running them stays cheap.",
        "Do the work in a tool, or split it over several steps.",
    ),
    DiagnosticEntry(
        "E311",
        "self_reference",
        "A step that reads its own output",
        "A step's parameters are computed before it runs; its output does not exist yet.",
        "Read another step; what should be asked of the output itself belongs in a gate.",
    ),
    DiagnosticEntry(
        "E312",
        "no_overload",
        "An operator or function that does not take these types",
        "The expression combines values of types that the operator or function has no meaning for.",
        "Convert one of them (`string(…)`, `int(…)`, `double(…)`, `timestamp(…)`), or read another field.",
    ),
    DiagnosticEntry(
        "E313",
        "unclosed_reference",
        "A `${` without its `}`",
        "The text begins a reference and does not end it.",
        "Close it with `}`, or write `$${` for a literal `${`.",
    ),
    # --- E4: the graph --------------------------------------------------------------------------------------
    DiagnosticEntry(
        "E401",
        "cycle",
        "Steps that wait for each other",
        "Each step of the path printed waits for the next, so none of them could ever start.",
        "Remove one of the references or `depends_on` entries on the path.",
    ),
    DiagnosticEntry(
        "E402",
        "self_dependency",
        "A step that depends on itself",
        "A step that waits for itself never starts.",
        "Remove its own id from `depends_on`.",
    ),
    DiagnosticEntry(
        "E403",
        "unknown_dependency",
        "A dependency on a step that does not exist",
        "`depends_on` names a step that the plan does not have.",
        "Correct the id; the message suggests the nearest.",
    ),
    DiagnosticEntry(
        "E404",
        "too_many_steps",
        "More steps than allowed",
        "The goal bounds how many steps a plan may have.",
        "Use `for_each` for calls that differ only in an item, or raise `limits.max_steps`.",
    ),
    DiagnosticEntry(
        "E405",
        "too_many_waves",
        "More waves than allowed",
        "The goal bounds how many waves, one after the other, a plan may take. A longer plan is refused, never cut.",
        "Remove dependencies that are not needed, or raise `limits.max_waves`.",
    ),
    DiagnosticEntry(
        "E406",
        "too_many_items",
        "More items than allowed",
        "The list of a `for_each` is known to be longer than the limit of the step, the tool or the goal.",
        "Shorten the list, or raise `max_items`.",
    ),
    DiagnosticEntry(
        "E407",
        "unknown_gate_target",
        "A gate on a step that does not exist",
        "The gate would never be asked, so whatever it protects would be unprotected.",
        "Correct the id; the message suggests the nearest.",
    ),
    DiagnosticEntry(
        "E408",
        "bad_supersedes",
        "`supersedes` where nothing can be superseded",
        "A step that a patch adds may replace one step of the plan for its readers; that step has to exist, and"
        " whoever has already read it must be done again as well.",
        "Name a step that exists, and supersede its finished readers too.",
    ),
    DiagnosticEntry(
        "E409",
        "bad_patch",
        "A patch that cannot be applied",
        "A patch is made for one plan, touches no finished step, changes something, and stays inside the goal's"
        " tools and limits.",
        "Make the patch again for the plan as it is now.",
    ),
    # --- E5: the goal's rules -------------------------------------------------------------------------------
    DiagnosticEntry(
        "E501",
        "exclusive_tags",
        "Tags that exclude each other",
        "One call asks for tags of which the goal allows only one at a time.",
        "Split the call in two, one for each tag.",
    ),
    DiagnosticEntry(
        "E502",
        "mandatory_gate_changed",
        "A mandatory gate is changed or missing",
        "The goal's gates and caps are not the plan's to redefine: the gate of this id differs from the goal's, or"
        " the plan was not bound to its goal.",
        "Remove the gate, or give your own gate another id.",
    ),
    DiagnosticEntry(
        "E503",
        "analysis_without_data",
        "An analysis without data",
        "The goal wants every call of this tool to rest on a call that fetches data; this one rests on none, so"
        " whatever it says would be invented.",
        "Read, or depend on, a step that calls a data tool.",
    ),
    DiagnosticEntry(
        "E504",
        "benchmark_as_target",
        "A benchmark used as a primary target",
        "Benchmarks are there for comparison; this parameter takes primary targets only.",
        "Use a primary target, or a tool that is meant for benchmarks.",
    ),
    DiagnosticEntry(
        "E505",
        "terminal_without_schema",
        "The last step lacks what the goal requires of it",
        "The goal requires its output of certain tools, with parameters (such as the output schema) that the engine"
        " sets. No last step calls one of them, or the plan was not bound to its goal.",
        "End the plan with a call of the tool that the message names, and let nothing read that step.",
    ),
    DiagnosticEntry(
        "E506",
        "required_missing",
        "A required tool or tag is missing",
        "The goal requires that the plan calls certain tools, or that its calls cover certain tags.",
        "Add a call of the tool, or a call with the tag.",
    ),
    # --- E7: budgets ----------------------------------------------------------------------------------------
    DiagnosticEntry(
        "E701",
        "over_run_budget",
        "More than the run's budget",
        "What the tools say that their calls take, times the known items, is more than what is left for the run: it"
        " would stop half-way, with its money spent. What is held back for review and recovery counts as gone.",
        "Drop steps, run them over fewer items, or raise `limits.budget` in the goal and `budgets.run` in"
        " `wavewright.yaml`, where they are set.",
    ),
    DiagnosticEntry(
        "E702",
        "over_job_budget",
        "More than the job's budget",
        "The runs of this job together have a budget, and the plan is expected to take more than what is left of it.",
        "Drop steps, run them over fewer items, or raise `budgets.job` in `wavewright.yaml`.",
    ),
    DiagnosticEntry(
        "E703",
        "over_day_budget",
        "More than the day's budget",
        "All runs of a day (UTC) together have a budget, and the plan is expected to take more than what is left of"
        " it.",
        "Run it after midnight UTC, drop steps, run them over fewer items, or raise `budgets.day` in"
        " `wavewright.yaml`.",
    ),
    DiagnosticEntry(
        "E704",
        "over_step_budget",
        "A step that takes more than its budget",
        "What the tool says that a call takes, times the known items, is more than the step's own budget.",
        "Raise the step's `budget`, or run it over fewer items.",
    ),
    # --- W8: lint -------------------------------------------------------------------------------------------
    DiagnosticEntry(
        "W801",
        "unread_output",
        "A step whose output nobody reads",
        "The step only looks, no other step, gate or cap reads it, and the plan's `result` does not use it: its"
        " work is thrown away.",
        "Use its output, or remove the step.",
    ),
    DiagnosticEntry(
        "W802",
        "repeated_call",
        "The same call twice",
        "Two steps call one tool with equal parameters; one result would serve both.",
        "Remove one and read the other; `wavewright check --fix` does it where nothing else changes by it.",
    ),
    DiagnosticEntry(
        "W803",
        "redundant_dependency",
        "A `depends_on` that changes nothing",
        "The step waits for this one anyway, through a reference or through another dependency.",
        "Remove it from `depends_on`; `wavewright check --fix` does it. Past an optional step a failure does not go: "
        "there it stays.",
    ),
    DiagnosticEntry(
        "W804",
        "batchable_calls",
        "Calls that one `for_each` would serve",
        "Three or more steps call one tool with parameters that differ in one literal only.",
        "Write one step with `for_each` over the values.",
    ),
    DiagnosticEntry(
        "W805",
        "unreachable_step",
        "A step that can never run",
        "Its condition is false whatever happens, its list is empty, or it asks for the output of such a step.",
        "Remove the step, or mend the condition or the list.",
    ),
    DiagnosticEntry(
        "W806",
        "model_not_here",
        "A step that needs a model, and none can be asked here",
        "The step's tool asks a model, and where the plan is checked none is configured; or one is configured that"
        " cannot be asked, such as without its key. It is no error: the machine that checks a plan need not be the one"
        " that runs it. A run here ends before anything is called.",
        "Where the plan is to run, set `WAVEWRIGHT_MODEL` and the model's key; elsewhere leave it.",
    ),
    DiagnosticEntry(
        "W807",
        "foreign_template",
        "A reference in another language's braces",
        "The text holds `{{ … }}` around what looks like a reference. Nothing replaces it: it reaches the tool as it"
        " stands.",
        "Write `${…}`, as in `${steps.prices}`; filters such as `| length` are methods here: `.size()`.",
    ),
    DiagnosticEntry(
        "W808",
        "idle_cap",
        "A cap on a field that nothing has",
        "Neither the result nor the output of a last step has the field, so the cap bounds no confidence there.",
        "Correct the name of the field, or remove the cap; `overall` is always there.",
    ),
)

CATALOGUE: dict[str, DiagnosticEntry] = {entry.code: entry for entry in _ENTRIES}
"""Every code, in order."""

CODE_OF: dict[str, str] = {entry.kind: entry.code for entry in _ENTRIES}
"""Codes by kind."""


def severity_of(code: str) -> Severity:
    """Return how grave a code is."""
    return CATALOGUE[code].severity
