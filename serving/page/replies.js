// One exchange as nodes: what was asked, the reply, and what its reader may say of it.
//
// A turn: {asked, reply, text, thoughts, id, version, finish, rating, corrected, failure, live};
// `asked` are the messages since the reply before, `reply` the message to send back.
import { draw, make } from "./dom.js";
import { render } from "./markdown.js";

const THUMB = "M2 9h4v11H2zM8 9l4-7c2 0 3 1.5 2.5 4L14 9h6q2 0 1.5 2l-2 7.5q-.5 1.5-2 1.5H8z";

// Return the node of a turn. `act`: {rate, correct, again, edit}, each given the turn.
export function exchange(turn, isLast, act) {
  const node = make("article", { "aria-busy": String(turn.live) });
  const asked = turn.asked.filter((message) => plain(message));
  for (const message of asked) node.append(said(message));
  if (turn.live || turn.text || turn.thoughts || turn.finish) node.append(reply(turn, isLast, act));
  if (turn.failure) {
    node.append(make("p", { class: "failure", text: turn.failure }));
  }
  if (isLast && !turn.live && !turn.text) {
    node.append(make("div", { class: "row" }, ...repeats(turn, act)));
  }
  return node;
}

// Return a message's text.
export function plain(message) {
  const { content } = message;
  if (Array.isArray(content)) return content.map((part) => part.text ?? "").join("");
  return content ?? "";
}

function said(message) {
  if (message.role === "user") {
    return make("div", { class: "said user" }, make("h3", { text: "You" }), plain(message));
  }
  return make("details", { class: "said other" },
    make("summary", { text: message.role }), plain(message));
}

function reply(turn, isLast, act) {
  const body = make("div", { class: turn.live && !turn.text ? "body waiting" : "body" });
  body.append(render(turn.text));
  const node = make("div", { class: "said assistant" }, make("h3", { text: "Reply" }));
  if (turn.thoughts) {
    node.append(make("details", { class: "thoughts" },
      make("summary", { class: "faint", text: "Thoughts" }), render(turn.thoughts)));
  }
  for (const call of turn.reply?.tool_calls ?? []) {
    const words = `${call.function.name} ${call.function.arguments}`;
    body.append(make("pre", {}, make("code", { text: words })));
  }
  node.append(body);
  if (!turn.live) node.append(...foot(turn, isLast, act));
  return node;
}

function foot(turn, isLast, act) {
  const row = make("div", { class: "row foot" });
  const correction = turn.id ? correctionBox(turn, act) : null;
  if (turn.id) row.append(...thumbs(turn, act, correction));
  if (isLast && turn.text) row.append(...repeats(turn, act));
  const endings = { length: "cut at the limit", cancelled: "stopped" };
  const facts = [endings[turn.finish], turn.version && `policy version ${turn.version}`];
  row.append(make("span", { class: "faint", text: facts.filter(Boolean).join(" · ") }));
  return correction ? [row, correction] : [row];
}

function thumbs(turn, act, correction) {
  const buttons = [["Good reply", 1], ["Bad reply", -1]].map(([name, rating]) =>
    make("button", { type: "button", "aria-label": name, title: name,
      "aria-pressed": String(turn.rating === rating),
      onclick: async () => {
        if (!(await act.rate(turn, turn.rating === rating ? 0 : rating))) return;
        for (const [at, value] of [1, -1].entries()) {
          buttons[at].setAttribute("aria-pressed", String(turn.rating === value));
        }
        if (turn.rating === -1) reveal(correction);
      } }, thumb(rating)));
  const opener = make("button", { type: "button", text: turn.corrected ? "Corrected" : "Correct",
    onclick: () => {
      if (!correction.hidden) correction.hidden = true;
      else reveal(correction).querySelector("textarea").focus();
    } });
  correction.addEventListener("sent", () => {
    opener.textContent = "Corrected";
    opener.focus();
  });
  return [...buttons, opener];
}

function thumb(rating) {
  const turned = rating < 0 ? { transform: "rotate(180 12 11.5)" } : {};
  return draw("svg", { viewBox: "0 0 24 23", "aria-hidden": "true" },
    draw("path", { d: THUMB, ...turned }));
}

function reveal(node) {
  node.hidden = false;
  node.scrollIntoView({ block: "nearest" });
  return node;
}

function correctionBox(turn, act) {
  const text = make("textarea", { rows: "2", required: true, id: `correct-${turn.id}` });
  text.value = turn.corrected;
  const box = make("form", { class: "correction", hidden: true,
    onsubmit: async (event) => {
      event.preventDefault();
      if (!text.value.trim() || !(await act.correct(turn, text.value.trim()))) return;
      box.hidden = true;
      box.dispatchEvent(new Event("sent"));
    } },
    make("label", { for: text.id, text: "What should it have said or done?" }), text,
    make("div", { class: "row" },
      make("button", { type: "submit", class: "strong", text: "Send correction" })));
  return box;
}

function repeats(turn, act) {
  const buttons = [make("button", { type: "button", onclick: () => act.again(turn),
    text: turn.failure ? "Try again" : "Regenerate" })];
  if (turn.asked.at(-1)?.role === "user") {
    buttons.push(make("button", { type: "button", text: "Edit", title: "Edit your last message",
      onclick: () => act.edit(turn) }));
  }
  return buttons;
}
