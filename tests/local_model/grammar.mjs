// The grammar, in llama.cpp's notation, of the JSON texts that fit a schema.
//
// Members come in the order of the schema. Texts and lists without a bound have one here, so that every answer ends.

const TEXT_CHARACTERS = 200;
const LIST_ITEMS = 6;
const BASIC = `
char ::= [^"\\\\\\x00-\\x1F] | "\\\\" ["\\\\/bfnrt]
integer ::= "-"? ("0" | [1-9] [0-9]{0,8})
number ::= integer ("." [0-9]{1,6})?
value ::= text | number | "true" | "false" | "null" | map | list
text ::= "\\"" char{0,${TEXT_CHARACTERS}} "\\""
pair ::= "\\"" char{1,30} "\\": " value
map ::= "{" (pair (", " pair){0,${LIST_ITEMS - 1}})? "}"
list ::= "[" (value (", " value){0,${LIST_ITEMS - 1}})? "]"
`;

export function grammarOf(schema) {
  const writer = new Writer(schema);
  const root = writer.rule(schema);
  return [`root ::= ${root}`, ...writer.rules, BASIC.trim()].join("\n");
}

class Writer {
  constructor(root) {
    this.root = root;
    this.rules = [];
    this.targets = new Map();
    this.names = new Map();
  }

  // The name of the rule of a schema; equal schemas share one.
  rule(schema) {
    if (schema === undefined || schema === true || Object.keys(schema).length === 0) return "value";
    if (schema.$ref) return this.target(schema.$ref);
    return this.named(this.body(schema));
  }

  target(pointer) {
    if (!this.targets.has(pointer)) {
      const name = `t${this.targets.size}`;
      this.targets.set(pointer, name);
      const schema = pointer.slice(2).split("/").reduce((node, key) => node[key], this.root);
      this.rules.push(`${name} ::= ${this.rule(schema)}`);
    }
    return this.targets.get(pointer);
  }

  named(body) {
    if (!this.names.has(body)) {
      this.names.set(body, `r${this.names.size}`);
      this.rules.push(`${this.names.get(body)} ::= ${body}`);
    }
    return this.names.get(body);
  }

  body(schema) {
    if ("const" in schema) return literal(schema.const);
    if (schema.enum) return schema.enum.map(literal).join(" | ");
    const branches = schema.anyOf ?? schema.oneOf;
    if (branches) return branches.map((branch) => this.rule(branch)).join(" | ");
    if (Array.isArray(schema.type)) return schema.type.map((type) => this.rule({ ...schema, type })).join(" | ");
    switch (schema.type ?? (schema.properties ? "object" : "")) {
      case "string": return this.text(schema);
      case "array": return this.list(schema);
      case "object": return this.object(schema);
      case "integer": return "integer";
      case "number": return "number";
      case "boolean": return `"true" | "false"`;
      case "null": return `"null"`;
      default: return "value";
    }
  }

  text({ pattern, minLength = 0, maxLength = TEXT_CHARACTERS }) {
    if (pattern) return `"\\"" ${patternRule(pattern)} "\\""`;
    return `"\\"" char{${minLength},${Math.max(minLength, Math.min(maxLength, TEXT_CHARACTERS))}} "\\""`;
  }

  list({ items, minItems = 0, maxItems = LIST_ITEMS }) {
    const item = this.rule(items);
    if (maxItems === 0) return `"[]"`;
    const more = `(", " ${item}){${Math.max(minItems - 1, 0)},${Math.max(maxItems, minItems) - 1}}`;
    return minItems > 0 ? `"[" ${item} ${more} "]"` : `"[" (${item} ${more})? "]"`;
  }

  object({ properties = {}, required = [], additionalProperties = true }) {
    const members = Object.entries(properties);
    if (members.length === 0) return additionalProperties === false ? `"{}"` : "map";
    // From the last to the first: what may follow a member, and what may follow where none stands before.
    let [after, alone] = ["", ""];
    for (const [name, schema] of members.reverse()) {
      const member = `${literal(name)} ": " ${this.rule(schema)}`;
      const isRequired = required.includes(name);
      const followed = `", " ${member} ${after}`;
      alone = this.named(isRequired ? `${member} ${after}` : `${member} ${after} | ${alone || `""`}`);
      after = this.named(isRequired ? followed : `${followed} | ${after || `""`}`);
    }
    return `"{" ${alone} "}"`;
  }
}

// An anchored pattern of literals, classes, groups and bounds, as llama.cpp reads it.
function patternRule(pattern) {
  if (!/^\^.*\$$/.test(pattern)) throw new Error(`the pattern ${pattern} is not anchored`);
  const parts = pattern.slice(1, -1).match(/\\.|\[(?:\\.|[^\]\\])*\]|\{\d+(?:,\d*)?\}|[\s\S]/g) ?? [];
  return parts.map((part) => {
    if (/^(?:[|()+*?]|\{.+\}|\[.+\])$/s.test(part)) return part;
    if (part === ".") throw new Error("any character would be one that has to be escaped");
    return JSON.stringify(part.replace(/^\\/, ""));
  }).join(" ").replace(/ (?=[+*?]|\{)/g, "");
}

// The JSON text of a value, as a literal of the notation.
function literal(value) {
  return JSON.stringify(spaced(value));
}

function spaced(value) {
  if (Array.isArray(value)) return `[${value.map(spaced).join(", ")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  return `{${Object.entries(value).map(([key, part]) => `${JSON.stringify(key)}: ${spaced(part)}`).join(", ")}}`;
}
