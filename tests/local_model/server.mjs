// A server with OpenAI's chat API over one small model on this machine, for tests.
//
//   node server.mjs MODEL.gguf        prints "listening on PORT" once the model is loaded
//
// One question is answered at a time; others wait. The tokens that a question has in common with the one before are
// not read again. A `response_format` with a JSON Schema, or a tool that must be called, becomes a grammar, so that
// each token of the answer keeps to it; what a grammar cannot say (`pattern`, bounds of numbers) is left out of it.
// `GET /v1/counted` returns the usage of each answer so far.
import { createServer } from "node:http";
import { getLlama, LlamaGrammarEvaluationState } from "node-llama-cpp";
import { grammarOf } from "./grammar.mjs";

const CONTEXT_TOKENS = 8192;
const ANSWER_TOKENS = 512;
const READ_AT_ONCE = 256;

const llama = await getLlama({ gpu: false, build: "never", logLevel: "error", maxThreads: 1 });
const model = await llama.loadModel({ modelPath: process.argv[2] });
const context = await model.createContext({ contextSize: CONTEXT_TOKENS, threads: 1 });
const sequence = context.getSequence();
const grammars = new Map();
const counted = [];
let last = Promise.resolve();

const server = createServer((request, response) => {
  const path = `${request.method} ${request.url}`;
  if (path === "GET /v1/models") return send(response, 200, { object: "list", data: [{ id: "local", object: "model" }] });
  if (path === "GET /v1/counted") return send(response, 200, counted);
  if (path !== "POST /v1/chat/completions") return send(response, 404, failure(`nothing is served at ${path}`));
  let body = "";
  request.on("data", (part) => (body += part));
  request.on("end", () => {
    last = last.then(() => answer(JSON.parse(body), response)).catch((error) => {
      if (!response.headersSent) send(response, 400, failure(String(error)));
      else response.end();
    });
  });
});
server.listen(0, "127.0.0.1", () => console.log(`listening on ${server.address().port}`));

async function answer(asked, response) {
  const tokens = tokensOf(asked);
  const most = Math.min(asked.max_completion_tokens ?? asked.max_tokens ?? ANSWER_TOKENS, ANSWER_TOKENS);
  if (tokens.length + most > CONTEXT_TOKENS) {
    const message = `the question has ${tokens.length} tokens; the context of this model has ${CONTEXT_TOKENS}`;
    return send(response, 400, failure(message, "context_length_exceeded"));
  }
  const tools = calledTools(asked);
  const schema = tools ? { anyOf: tools } : asked.response_format?.json_schema?.schema;
  const grammar = schema && (await keptGrammar(schema));
  const cached = await forgetFrom(tokens);
  const stream = asked.stream === true ? new Chunks(response) : null;
  // A call is no call before it is whole.
  const isWritten = await write(tokens.slice(cached), { most, grammar, temperature: asked.temperature, seed: asked.seed },
    response, (text) => !tools && stream?.send({ content: text }));
  const usage = {
    prompt_tokens: tokens.length,
    completion_tokens: isWritten.count,
    total_tokens: tokens.length + isWritten.count,
    prompt_tokens_details: { cached_tokens: cached },
  };
  counted.push(usage);
  const calls = tools && !isWritten.isCut ? [toolCall(JSON.parse(isWritten.text))] : undefined;
  const finish = isWritten.isCut ? "length" : calls ? "tool_calls" : "stop";
  if (stream) {
    if (calls) stream.send({ tool_calls: calls.map((call) => ({ index: 0, ...call })) });
    return stream.end(finish, asked.stream_options?.include_usage ? usage : undefined);
  }
  const message = { role: "assistant", content: calls ? null : isWritten.text, tool_calls: calls };
  send(response, 200, {
    ...head("chat.completion"), usage,
    choices: [{ index: 0, message, finish_reason: finish }],
  });
}

// Leave in the context what the question begins with, all but its last token, and return how many tokens that are.
async function forgetFrom(tokens) {
  const same = Math.min(sequence.compareContextTokens(tokens).firstDifferentIndex, tokens.length - 1);
  if (sequence.nextTokenIndex > same) {
    await sequence.eraseContextTokenRanges([{ start: same, end: sequence.nextTokenIndex }]);
  }
  return same;
}

async function write(unread, { most, grammar, temperature = 0.4, seed = 1 }, response, onText) {
  while (unread.length > READ_AT_ONCE && !response.destroyed) {
    await sequence.evaluateWithoutGeneratingNewTokens(unread.slice(0, READ_AT_ONCE));
    unread = unread.slice(READ_AT_ONCE);
  }
  const held = grammar && new LlamaGrammarEvaluationState({ model, grammar });
  const written = [];
  let text = "";
  for await (const token of sequence.evaluate(unread, { temperature, seed, grammarEvaluationState: held })) {
    written.push(token);
    const whole = model.detokenize(written);
    // A character of several tokens is shown once it is whole.
    if (!whole.endsWith("\ufffd") && whole.length > text.length) {
      onText(whole.slice(text.length));
      text = whole;
    }
    if (written.length >= most || response.destroyed) return { text, count: written.length, isCut: true };
  }
  return { text, count: written.length, isCut: false };
}

// The turns in ChatML, the form that the model was trained in; what stands in a turn is no mark of one.
function tokensOf(asked) {
  const listed = asked.tools?.length ? [{ role: "system", content: toolList(asked.tools) }] : [];
  const tokens = [];
  for (const turn of [...listed, ...asked.messages]) {
    const role = turn.role === "assistant" ? "assistant" : turn.role === "system" ? "system" : "user";
    tokens.push(...model.tokenize(`<|im_start|>${role}\n`, true), ...model.tokenize(said(turn), false));
    tokens.push(...model.tokenize("<|im_end|>\n", true));
  }
  return [...tokens, ...model.tokenize("<|im_start|>assistant\n", true)];
}

function said({ content, tool_calls: calls }) {
  if (typeof content === "string") return content;
  if (calls) return JSON.stringify(calls.map((call) => call.function));
  return (content ?? []).map((part) => part.text ?? "").join("");
}

function toolList(tools) {
  return `Tools that may be called:\n${tools.map((tool) => JSON.stringify(tool.function)).join("\n")}`;
}

// The schemas of the calls of which the answer must be one; undefined where it may be words.
function calledTools({ tools, tool_choice: choice }) {
  if (!tools?.length || choice === undefined || choice === "auto" || choice === "none") return undefined;
  const name = choice.function?.name;
  return tools.filter((tool) => !name || tool.function.name === name).map(({ function: tool }) => ({
    type: "object",
    properties: { name: { const: tool.name }, arguments: tool.parameters },
    required: ["name", "arguments"],
  }));
}

function toolCall({ name, arguments: given }) {
  return { id: `call_${Date.now()}`, type: "function", function: { name, arguments: JSON.stringify(given) } };
}

async function keptGrammar(schema) {
  const text = grammarOf(schema);
  if (!grammars.has(text)) grammars.set(text, await llama.createGrammar({ grammar: text }));
  return grammars.get(text);
}

class Chunks {
  constructor(response) {
    this.response = response;
    response.writeHead(200, { "content-type": "text/event-stream" });
    this.send({ role: "assistant", content: "" });
  }

  send(delta, finish = null) {
    this.event({ choices: [{ index: 0, delta, finish_reason: finish }] });
  }

  end(finish, usage) {
    this.send({}, finish);
    if (usage) this.event({ choices: [], usage });
    this.response.end("data: [DONE]\n\n");
  }

  event(body) {
    this.response.write(`data: ${JSON.stringify({ ...head("chat.completion.chunk"), ...body })}\n\n`);
  }
}

function head(object) {
  return { id: "chatcmpl-local", object, created: Math.floor(Date.now() / 1000), model: "local" };
}

function send(response, status, body) {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}

function failure(message, code = "invalid_request_error") {
  return { error: { message, type: "invalid_request_error", code } };
}
