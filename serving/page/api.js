// The gateway's routes, and the ways they fail.

export class Refused extends Error {
  constructor(status, message, retryAfterS) {
    super(message);
    this.status = status;
    this.retryAfterS = retryAfterS;
  }
}

export class Away extends Error {}

const INFERRED = /^auto-[0-9a-f]{16}$/; // named by the server: naming it would start another

export class Api {
  constructor(key) {
    this.key = key;
  }

  // Return the response; throws Refused, Away or, when stopped, an AbortError.
  async ask(method, path, { body, signal, headers = {} } = {}) {
    let response;
    try {
      response = await fetch(path, {
        method,
        signal,
        cache: "no-store",
        headers: { Authorization: `Bearer ${this.key}`, "Content-Type": "application/json", ...headers },
        body: body === undefined ? undefined : JSON.stringify(body),
      });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Away("The server does not answer.");
    }
    if (response.ok) return response;
    const told = await response.json().catch(() => ({}));
    const message = told.error?.message ?? `HTTP ${response.status}`;
    throw new Refused(response.status, message, Number(response.headers.get("Retry-After")) || 0);
  }

  async json(method, path, options) {
    return (await this.ask(method, path, options)).json();
  }

  sessions = async () => (await this.json("GET", "v1/sessions")).data;
  session = async (id) => (await this.json("GET", `v1/sessions/${encodeURIComponent(id)}`)).turns;
  forget = (id) => this.json("DELETE", `v1/sessions/${encodeURIComponent(id)}`);
  export = async (id) =>
    (await this.ask("GET", `v1/sessions/${encodeURIComponent(id)}/export`)).blob();
  quality = async () => (await this.json("GET", "v1/quality")).data;
  feedback = (body) => this.json("POST", "v1/feedback", { body });

  // Yield what becomes known of a streamed reply: {id, session}, {text}, {thoughts},
  // {finish, version}. A failure in mid-reply is thrown as Refused.
  async *reply(messages, session, signal) {
    const headers = session && !INFERRED.test(session) ? { "X-Session-Id": session } : {};
    const body = { model: "default", messages, stream: true };
    const response = await this.ask("POST", "v1/chat/completions", { body, signal, headers });
    yield {
      id: response.headers.get("X-Response-Id"),
      session: response.headers.get("X-Session-Id"),
    };
    let ended = false;
    for await (const event of events(response.body)) {
      if (event === "[DONE]") {
        ended = true;
        break;
      }
      const told = JSON.parse(event);
      if (told.error) throw new Refused(500, told.error.message, 0);
      const choice = told.choices?.[0];
      if (choice?.delta?.reasoning_content) yield { thoughts: choice.delta.reasoning_content };
      if (choice?.delta?.content) yield { text: choice.delta.content };
      if (choice?.finish_reason) {
        const version = /^policy-(\d+)$/.exec(told.system_fingerprint ?? "")?.[1] ?? "";
        yield { finish: choice.finish_reason, version };
      }
    }
    if (!ended) throw new Away("The connection was lost in mid-reply.");
  }
}

// Yield the data of server-sent events.
async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((error) => {
        if (error.name === "AbortError") throw error;
        throw new Away("The connection was lost in mid-reply.");
      });
      if (done) return;
      const parts = (rest + value).split("\n\n");
      rest = parts.pop();
      for (const part of parts) if (part.startsWith("data: ")) yield part.slice(6);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
