// The chat page: wires the gateway's routes to what is on the screen. No framework, nothing from
// elsewhere. The key is kept in this tab alone; `#key=…` in the address is taken and removed.
import { Api, Away, Refused } from "./api.js";
import { adopt, asking, begin, messages, reopen } from "./conversation.js";
import { curve } from "./curve.js";
import { find, make } from "./dom.js";
import { exchange, plain } from "./replies.js";

const KEY = "clawgym.key";
const QUALITY_EVERY_MS = 20_000;
const RECORD_TRIES = 50; // a tenth of a second each, until a stopped reply is on record

let api = null;
let talk = begin();
let running = null; // AbortController of the reply being written
let edited = null; // the turn whose message is in the composer

// ---- the key

function enter() {
  const given = new URLSearchParams(location.hash.slice(1)).get("key");
  if (given) {
    sessionStorage.setItem(KEY, given);
    history.replaceState(null, "", location.pathname + location.search);
  }
  open(sessionStorage.getItem(KEY));
}

async function open(key) {
  if (!key) return lock("");
  api = new Api(key);
  try {
    await listSessions();
  } catch (error) {
    if (error instanceof Refused && error.status === 401) return lock("This key is wrong.");
    tell(error);
  }
  sessionStorage.setItem(KEY, key);
  show(true);
  draw();
  drawQuality();
  find("text").focus();
}

function lock(why) {
  running?.abort();
  sessionStorage.removeItem(KEY);
  api = null;
  talk = begin();
  find("sessions").replaceChildren();
  find("log").replaceChildren();
  find("notice").textContent = "";
  show(false);
  find("wrong").textContent = why;
  find("key").value = "";
  find("key").focus();
}

function show(isOpen) {
  find("door").hidden = isOpen;
  find("room").hidden = !isOpen;
  find("leave").hidden = !isOpen;
  find("menu").hidden = !isOpen;
}

// ---- the conversation

function draw() {
  const log = find("log");
  log.replaceChildren(...talk.turns.map((turn, at) =>
    exchange(turn, at === talk.turns.length - 1, { rate, correct, again, edit })));
  if (!talk.turns.length) log.append(make("p", { class: "empty", text: "Say something." }));
  log.scrollTop = log.scrollHeight;
}

let drawing = 0;

function drawLast() {
  drawing ||= requestAnimationFrame(() => {
    drawing = 0;
    const log = find("log");
    const follows = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
    const turn = talk.turns.at(-1);
    if (turn) {
      const isOpen = log.lastElementChild.querySelector(".thoughts")?.open;
      const node = exchange(turn, true, { rate, correct, again, edit });
      if (isOpen) node.querySelector(".thoughts")?.setAttribute("open", "");
      log.lastElementChild.replaceWith(node);
    }
    if (follows) log.scrollTop = log.scrollHeight;
  });
}

async function ask(asked) {
  const here = talk;
  const turn = asking(asked);
  here.turns.push(turn);
  draw();
  busy(new AbortController());
  const mine = running;
  find("notice").textContent = "";
  try {
    const sent = messages(here.turns, turn);
    for await (const news of api.reply(sent, here.session, mine.signal)) {
      take(here, turn, news);
      if (talk === here) drawLast();
    }
  } catch (error) {
    turn.finish = turn.text ? "cancelled" : "";
    if (!mine.signal.aborted) turn.failure = words(error);
    if (error instanceof Refused && error.status === 401) return lock("This key is wrong.");
    await settle(here, turn);
  } finally {
    turn.live = false;
    if (running === mine) busy(null);
  }
  if (talk === here) drawLast();
  listSessions().catch(tell);
  drawQuality();
}

function take(here, turn, news) {
  if (news.session) here.session = news.session;
  if (news.id) turn.id = news.id;
  turn.text += news.text ?? "";
  turn.thoughts += news.thoughts ?? "";
  if (news.finish) Object.assign(turn, { finish: news.finish, version: news.version });
}

// A reply that was cut goes on from what the server has on record, which may be a little more.
async function settle(here, turn) {
  const { asked, failure } = turn;
  const most = turn.text || turn.thoughts ? RECORD_TRIES : 3;
  for (let tries = 0; turn.id && tries < most; tries += 1) {
    const rows = await api.session(here.session).catch((error) => (error instanceof Away ? null : []));
    if (!rows) break;
    if (rows.some((row) => row.id === turn.id)) {
      adopt(turn, rows);
      Object.assign(turn, { asked, failure });
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  turn.id = ""; // nothing is on record: there is nothing to rate
}

function busy(controller) {
  running = controller;
  find("stop").hidden = !controller;
  find("send").disabled = Boolean(controller);
  find("state").textContent = controller ? "Writing…" : "";
}

function again(turn) {
  if (running) return;
  talk.turns.pop();
  stopEditing();
  ask(turn.asked);
}

function edit(turn) {
  edited = turn;
  find("text").value = plain(turn.asked.at(-1));
  find("prompt").textContent = "Edit your last message";
  find("cancel").hidden = false;
  find("text").focus();
}

function stopEditing() {
  if (edited) find("text").value = "";
  edited = null;
  find("prompt").textContent = "Message";
  find("cancel").hidden = true;
}

function send() {
  const text = find("text").value.trim();
  if (!text || running) return;
  const before = edited ? edited.asked.slice(0, -1) : [];
  const last = talk.turns.at(-1);
  if (last && (last === edited || !last.text)) talk.turns.pop(); // replaced, or never answered
  stopEditing();
  find("text").value = "";
  ask([...before, { role: "user", content: text }]);
}

// ---- what its reader says of a reply

async function rate(turn, rating) {
  if (!(await attempt(() => api.feedback({ id: turn.id, rating })))) return false;
  turn.rating = rating;
  return true;
}

async function correct(turn, correction) {
  if (!(await attempt(() => api.feedback({ id: turn.id, correction })))) return false;
  turn.corrected = correction;
  find("state").textContent = "Correction sent.";
  return true;
}

// ---- sessions

async function listSessions() {
  const rows = await api.sessions();
  find("sessions").replaceChildren(...rows.map(sessionItem));
}

function sessionItem(row) {
  const name = row.title || row.id;
  const updated = new Date(row.updated * 1000);
  const isToday = updated.toDateString() === new Date().toDateString();
  const shown = isToday ? { timeStyle: "short" } : { dateStyle: "medium" };
  const when = updated.toLocaleString([], shown);
  const label = (text, long) => {
    remove.textContent = text;
    remove.setAttribute("aria-label", long);
  };
  const remove = make("button", { type: "button",
    onclick: () => {
      if (remove.textContent === "Sure?") return forget(row.id);
      label("Sure?", `Delete ${name} for good?`);
    },
    onblur: () => label("Delete", `Delete ${name}`) });
  label("Delete", `Delete ${name}`);
  return make("li", {},
    make("button", { type: "button", class: "open", title: row.id,
      "aria-current": row.id === talk.session && "true", onclick: () => openSession(row.id) },
      make("span", { class: "title", text: name })),
    make("div", { class: "row" },
      make("span", { class: "faint", text: when }),
      make("button", { type: "button", text: "Export", "aria-label": `Export ${name}`,
        onclick: () => save(row.id) }),
      remove));
}

function switchTo(conversation) {
  running?.abort();
  busy(null);
  stopEditing();
  talk = conversation;
  draw();
  closeMenu();
  listSessions().catch(tell);
}

async function openSession(id) {
  await attempt(async () => switchTo(reopen(id, await api.session(id))));
}

async function forget(id) {
  if (!(await attempt(() => api.forget(id)))) return;
  find("new").focus(); // the button that had it is about to go
  if (id === talk.session) switchTo(begin());
  else listSessions().catch(tell);
}

async function save(id) {
  await attempt(async () => {
    const address = URL.createObjectURL(await api.export(id));
    make("a", { href: address, download: `${id.replace(/[^\w.-]/g, "_")}.jsonl` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  });
}

async function drawQuality() {
  if (!api || document.hidden) return;
  try {
    find("quality").replaceChildren(...curve(await api.quality()));
  } catch {
    // an old curve is better than a second message about the same server
  }
}

// ---- what went wrong

function words(error) {
  if (error instanceof Refused && error.status === 429) {
    return `Too many requests: try again in ${error.retryAfterS || "a few"} seconds.`;
  }
  return error.message;
}

function tell(error) {
  if (error instanceof Refused && error.status === 401) lock("This key is wrong.");
  else find("notice").textContent = words(error);
}

async function attempt(action) {
  try {
    await action();
    find("notice").textContent = "";
    return true;
  } catch (error) {
    tell(error);
    return false;
  }
}

// ---- buttons and keys

function closeMenu() {
  find("room").classList.remove("menu");
  find("menu").setAttribute("aria-expanded", "false");
}

find("unlock").addEventListener("submit", (event) => {
  event.preventDefault();
  open(find("key").value.trim());
});
find("leave").addEventListener("click", () => lock(""));
find("menu").addEventListener("click", () => {
  const isOpen = find("room").classList.toggle("menu");
  find("menu").setAttribute("aria-expanded", String(isOpen));
});
find("new").addEventListener("click", () => {
  switchTo(begin());
  find("text").focus();
});
find("stop").addEventListener("click", () => running?.abort());
find("cancel").addEventListener("click", stopEditing);
find("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
find("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    send();
  } else if (event.key === "Escape") {
    if (running) running.abort();
    else if (edited) stopEditing();
  }
});
window.addEventListener("hashchange", enter);
document.addEventListener("visibilitychange", drawQuality);
setInterval(drawQuality, QUALITY_EVERY_MS);
enter();
