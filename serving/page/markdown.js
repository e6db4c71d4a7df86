// A small part of Markdown as nodes: paragraphs, fenced code, lists, bold, inline code. Everything
// else stays the text it is; there is no way from here to markup, links or pictures.
import { make } from "./dom.js";

const FENCE = /^\s*```/;
const BULLET = /^\s*[-*+]\s+(.*)$/;
const NUMBER = /^\s*\d{1,9}[.)]\s+(.*)$/;
const INLINE = /(\*\*[^*\n]+\*\*|`[^`\n]+`)/;

// Return a fragment of a text, which may be the beginning of one that is still being written.
export function render(text) {
  const whole = document.createDocumentFragment();
  const lines = text.split("\n");
  let at = 0;
  while (at < lines.length) {
    const from = at;
    if (FENCE.test(lines[at])) {
      at += 1;
      while (at < lines.length && !FENCE.test(lines[at])) at += 1;
      const code = lines.slice(from + 1, at).join("\n");
      whole.append(make("pre", { tabindex: "0" }, make("code", { text: code })));
      at += 1;
    } else if (BULLET.test(lines[at]) || NUMBER.test(lines[at])) {
      const kind = BULLET.test(lines[at]) ? BULLET : NUMBER;
      const list = make(kind === BULLET ? "ul" : "ol");
      for (; at < lines.length && kind.test(lines[at]); at += 1) {
        list.append(inline(make("li"), kind.exec(lines[at])[1]));
      }
      whole.append(list);
    } else if (!lines[at].trim()) {
      at += 1;
    } else {
      const paragraph = make("p");
      for (; at < lines.length && isPlain(lines[at]); at += 1) {
        if (at > from) paragraph.append(make("br"));
        inline(paragraph, lines[at]);
      }
      whole.append(paragraph);
    }
  }
  return whole;
}

function isPlain(line) {
  return line.trim() && ![FENCE, BULLET, NUMBER].some((kind) => kind.test(line));
}

function inline(node, line) {
  for (const part of line.split(INLINE)) {
    if (part.length > 4 && part.startsWith("**") && part.endsWith("**")) {
      node.append(make("strong", { text: part.slice(2, -2) }));
    } else if (part.length > 2 && part.startsWith("`") && part.endsWith("`")) {
      node.append(make("code", { text: part.slice(1, -1) }));
    } else if (part) {
      node.append(part);
    }
  }
  return node;
}
