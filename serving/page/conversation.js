// The conversation on the screen: a path through its session's tree of turns.

// Return an empty conversation; its session has a name of its own from the start.
export function begin() {
  const bytes = crypto.getRandomValues(new Uint8Array(6));
  const name = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return { session: `chat-${name}`, turns: [] };
}

// Return the conversation up to the newest turn of a session.
export function reopen(session, rows) {
  const byId = new Map(rows.map((row) => [row.id, row]));
  const path = [];
  let row = rows.filter((one) => one.kind === "main").at(-1) ?? rows.at(-1);
  for (; row; row = byId.get(row.parent)) path.unshift(recorded(row));
  return { session, turns: path };
}

// Return a turn that waits for its reply.
export function asking(asked) {
  return { asked, reply: null, text: "", thoughts: "", id: "", version: "", finish: "",
    rating: 0, corrected: "", failure: "", live: true };
}

// Return what to send for a turn: everything said before it, and what it asks.
export function messages(turns, turn) {
  const sent = [];
  for (const one of turns.slice(0, turns.indexOf(turn))) {
    sent.push(...one.asked, one.reply ?? { role: "assistant", content: one.text });
  }
  return [...sent, ...turn.asked];
}

// Take over what the server has on record of a reply that was stopped.
export function adopt(turn, rows) {
  const row = rows.find((one) => one.id === turn.id);
  Object.assign(turn, recorded(row));
}

function recorded(row) {
  const ratings = row.feedback.map((one) => one.rating).filter((one) => one !== null);
  const corrections = row.feedback.map((one) => one.correction).filter(Boolean);
  return { ...asking(row.messages), live: false, reply: row.reply, text: row.reply.content ?? "",
    thoughts: row.reasoning, id: row.id, version: row.versions.at(-1) ?? "",
    finish: row.finish_reason, rating: ratings.at(-1) ?? 0, corrected: corrections.at(-1) ?? "" };
}
