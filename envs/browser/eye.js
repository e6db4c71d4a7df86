// Reads a page: elements as an agent sees them, with ids that stay; and tells when it is at rest.
// Runs in a world of its own: the page's scripts neither see it nor are seen by it.
(() => {
  if (globalThis.eye) return globalThis.eye;
  const ids = new WeakMap(), found = new Map();
  let next = 1, changes = 0;
  const watched = new WeakSet();
  const SKIP = new Set(["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE", "HEAD", "META", "LINK", "TITLE",
    "BASE", "BR", "WBR", "DATALIST", "DEFS", "CLIPPATH", "PARAM", "SOURCE", "TRACK"]);
  const ROLES = new Set(["button", "link", "textbox", "searchbox", "combobox", "listbox", "option",
    "checkbox", "radio", "switch", "slider", "spinbutton", "tab", "menuitem", "menuitemcheckbox",
    "menuitemradio", "treeitem", "heading", "image", "img", "cell", "gridcell", "columnheader",
    "rowheader", "dialog", "alertdialog", "alert", "progressbar", "meter", "colorwell", "date",
    "datetime", "inputtime", "password", "file", "canvas", "video", "audio", "time", "color"]);
  const HOLDERS = new Set(["cell", "gridcell", "columnheader", "rowheader", "dialog", "alertdialog",
    "listbox", "combobox", "image", "img", "textbox", "searchbox", "alert", "canvas", "slider",
    "spinbutton", "progressbar"]);
  const INPUTS = {date: "date", time: "time", "datetime-local": "date", month: "date",
    week: "date", color: "color", password: "password", file: "file"};
  const SHAPES = new Set(["circle", "rect", "polygon", "path", "ellipse", "line", "polyline", "text"]);
  const DIRECT = new Set(["range", "color", "date", "time", "datetime-local", "month", "week"]);
  const watcher = new MutationObserver(list => { changes += list.length; });
  const watch = root => {
    if (watched.has(root)) return;
    watched.add(root);
    watcher.observe(root, {subtree: true, childList: true, attributes: true, characterData: true});
  };
  const number = node => {
    let id = ids.get(node);
    if (!id) { id = next++; ids.set(node, id); found.set(id, new WeakRef(node)); }
    return id;
  };
  const tidy = text => (text || "").replace(/\s+/g, " ").trim();
  const cut = (text, most) => text.length > most ? text.slice(0, most) + "…" : text;
  // The engine's names and roles cost a pass over the whole document: not over one of 10 MB.
  let big = false;
  const isBig = most => {
    const count = document.getElementsByTagName("*").length;
    return count > most || count > 1000 && document.body.textContent.length > 1e6;
  };
  const PLAIN = {A: "link", BUTTON: "button", INPUT: "textbox", TEXTAREA: "textbox",
    SELECT: "combobox", H1: "heading", H2: "heading", H3: "heading", TD: "cell", IMG: "image"};
  const nameOf = el => tidy(big ? el.getAttribute("aria-label") || el.title : el.computedName);
  const frameDocument = el => {
    try { return el.contentDocument; } catch { return null; }
  };
  const roleOf = el => {
    if (el.tagName === "INPUT" && INPUTS[el.type]) return INPUTS[el.type];
    const tag = el.tagName.toLowerCase();
    if (tag === "canvas" || tag === "video" || tag === "audio") return tag;
    return ((big ? PLAIN[el.tagName] : el.computedRole) || el.getAttribute("role") || "")
      .toLowerCase();
  };
  const valueOf = (el, role) => {
    if (el.tagName === "SELECT")
      return [...el.selectedOptions].map(o => tidy(o.label)).join(", ");
    if (el.tagName === "INPUT") {
      if (["checkbox", "radio", "button", "submit", "reset", "image"].includes(el.type)) return null;
      if (el.type === "password") return "•".repeat(el.value.length);
      if (el.type === "file") return [...el.files].map(f => f.name).join(", ");
      return cut(el.value, 1000);
    }
    if (el.tagName === "TEXTAREA") return cut(el.value, 1000);
    if (el.isContentEditable && role === "textbox") return cut(tidy(el.innerText), 1000);
    return el.getAttribute("aria-valuetext") || el.getAttribute("aria-valuenow");
  };
  const statesOf = el => {
    const states = [], on = name => el.getAttribute(name) === "true";
    if (el.ownerDocument.activeElement === el && el !== el.ownerDocument.body)
      states.push("focused");
    if (el.checked === true || on("aria-checked") || on("aria-pressed")) states.push("checked");
    if ((el.tagName === "OPTION" && el.selected) || on("aria-selected")) states.push("selected");
    if (on("aria-expanded") || (el.tagName === "DETAILS" && el.open)) states.push("expanded");
    if (el.tagName === "TEXTAREA") states.push("multiline");
    if (!(el.disabled === true || on("aria-disabled"))) states.push("sensitive");
    return states;
  };
  // A pointer's shape is inherited: it marks the outermost element that has it.
  const clickable = (el, style) => el.hasAttribute("onclick") || el.tabIndex >= 0 ||
    el.draggable === true && el.tagName !== "IMG" && el.tagName !== "A" ||
    (style.cursor === "pointer" || style.cursor === "move") &&
    !(el.parentElement && getComputedStyle(el.parentElement).cursor === style.cursor);
  const COLORS = {"0, 0, 0": "black", "255, 255, 255": "white", "255, 0, 0": "red",
    "0, 255, 0": "lime", "0, 0, 255": "blue", "255, 255, 0": "yellow", "0, 255, 255": "cyan",
    "255, 0, 255": "magenta", "0, 128, 0": "green", "128, 0, 128": "purple",
    "255, 165, 0": "orange", "128, 128, 128": "grey", "192, 192, 192": "silver",
    "128, 0, 0": "maroon", "128, 128, 0": "olive", "0, 0, 128": "navy", "0, 128, 128": "teal",
    "255, 192, 203": "pink", "165, 42, 42": "brown"};
  const colorName = css => {
    const plain = (css || "").replace(/^rgb\((.*)\)$/, "$1");
    if (/^rgba\(.*, 0\)$/.test(plain) || plain === "none") return "";
    return COLORS[plain] || css;
  };
  const textRect = node => {
    const range = node.ownerDocument.createRange();
    range.selectNodeContents(node);
    for (const r of range.getClientRects()) if (r.width > 0 && r.height > 0) return r;
    return null;
  };
  const painted = style => style.backgroundImage !== "none" ||
    !/rgba\(\d+, \d+, \d+, 0\)|transparent/.test(style.backgroundColor) ||
    parseFloat(style.borderTopWidth) > 0;

  class Walk {
    constructor(limits) {
      Object.assign(this, limits);
      this.rows = []; this.visited = this.written = 0; this.cut = false; this.end = performance.now() + this.ms;
    }
    full() {
      if (this.rows.length >= this.most || this.visited >= this.visits || this.written >= this.chars ||
          ((this.visited & 255) === 0 && performance.now() > this.end)) this.cut = true;
      return this.cut;
    }
    add(node, role, name, value, states, r, at, depth) {
      const box = [Math.round(r.left + at.x), Math.round(r.top + at.y),
        Math.round(r.width), Math.round(r.height)];
      const out = box[0] >= innerWidth || box[1] >= innerHeight ||
        box[0] + box[2] <= 0 || box[1] + box[3] <= 0;
      if (out) states = states.concat("offscreen");
      this.row([number(node), depth, role, cut(name, 300), value, box, states]);
    }
    row(row) {
      this.rows.push(row);
      this.written += row[2].length + row[3].length + (row[4] || "").length;
    }
    document(doc, at, depth) {
      watch(doc);
      if (doc.body) this.children(doc.body, at, depth, "", true);
    }
    children(el, at, depth, said, visible) {
      const root = el.shadowRoot || el;
      if (el.shadowRoot) watch(el.shadowRoot);
      for (const child of root.childNodes) {
        if (this.full()) return;
        if (child.nodeType === 3) { if (visible) this.text(child, at, depth, said); }
        else if (child.nodeType === 1) this.element(child, at, depth, said);
      }
      if (el.tagName === "SLOT" && el.assignedNodes)
        for (const child of el.assignedNodes()) {
          if (this.full()) return;
          if (child.nodeType === 1) this.element(child, at, depth, said);
          else if (child.nodeType === 3 && visible) this.text(child, at, depth, said);
        }
    }
    text(node, at, depth, said) {
      const words = tidy(node.data);
      this.visited++;
      if (!words || said.includes(words)) return;
      const r = textRect(node);
      if (r) this.add(node, "label", words, null, ["sensitive"], r, at, depth);
    }
    element(el, at, depth, said) {
      this.visited++;
      if (SKIP.has(el.tagName.toUpperCase()) || this.hide && el.matches(this.hide)) return;
      const style = getComputedStyle(el);
      if (style.display === "none") return;
      const r = el.getBoundingClientRect();
      const hidden = style.visibility !== "visible" || style.opacity === "0" && !clickable(el, style);
      if (el.tagName === "IFRAME" || el.tagName === "FRAME") return this.frame(el, r, at, depth);
      let here = said, deeper = depth;
      if (!hidden && r.width > 0 && r.height > 0) {
        const [role, name] = this.judge(el, style);
        if (role) {
          this.add(el, role, name, valueOf(el, role), statesOf(el), r, at, depth);
          here = HOLDERS.has(role) && role !== "cell" && role !== "gridcell" ? name :
            said + "\n" + name;
          deeper = depth + 1;
        }
      }
      if (el.tagName === "SELECT") return this.options(el, r, at, deeper);
      if (el.tagName === "TEXTAREA" || (el.tagName === "INPUT")) return;
      this.children(el, at, deeper, here, !hidden);
    }
    judge(el, style) {
      const role = roleOf(el), tag = el.tagName.toLowerCase();
      if (ROLES.has(role) && !(role === "image" && tag === "svg" && el.childElementCount)) {
        let name = nameOf(el);
        if (!name && !el.childElementCount && tag !== "textarea") name = tidy(el.textContent);
        if (!name && (role === "image" || role === "img"))
          name = tidy((el.getAttribute("src") || "").split("/").pop().split("?")[0])
            .slice(0, 60) || this.mark(el);
        if (!name && (role === "textbox" || role === "password")) name = el.placeholder || "";
        if ((role === "cell" || role === "gridcell") && el.childElementCount) return ["", ""];
        return [role, name];
      }
      if (SHAPES.has(tag) && el instanceof SVGElement) {
        const fill = style.fill === "none" ? style.stroke : style.fill;
        return [tag, tidy(`${el.textContent} ${colorName(fill)}`)];
      }
      const own = [...el.childNodes].some(n => n.nodeType === 3 && tidy(n.data));
      if (clickable(el, style)) return ["generic", own ? tidy(el.textContent) : this.mark(el)];
      if (tag === "label" && el.control) return ["", ""];  // its control is called that
      if (own && !el.childElementCount && style.display.startsWith("inline"))
        return ["generic", tidy(el.textContent)];
      if (!el.childElementCount && !own && painted(style))
        return ["box", tidy(`${this.mark(el)} ${colorName(style.backgroundColor)}`)];
      return ["", ""];
    }
    mark(el) {
      return tidy(el.getAttribute("aria-label") || el.title || el.id ||
        (typeof el.className === "string" ? el.className : "")).slice(0, 60);
    }
    options(el, r, at, depth) {
      for (const option of el.options) {
        if (this.full()) return;
        this.visited++;
        const states = statesOf(option);
        this.row([number(option), depth, "option", cut(tidy(option.label), 300), null,
          [Math.round(r.left + at.x), Math.round(r.top + at.y), Math.round(r.width),
            Math.round(r.height)], states]);
      }
    }
    frame(el, r, at, depth) {
      const doc = frameDocument(el);
      if (!(r.width > 0 && r.height > 0)) return;
      this.add(el, "iframe", tidy(el.title || el.name), null, ["sensitive"], r, at, depth);
      if (doc) this.document(doc, {x: at.x + r.left + el.clientLeft, y: at.y + r.top + el.clientTop},
        depth + 1);
    }
  }

  const ATTRIBUTES = ["id", "class", "name", "type", "href", "src", "alt", "title", "placeholder",
    "value", "for", "role", "aria-label", "data-color", "data-index", "data-result", "style"];
  const markup = (most, hide) => {
    const lines = [];
    let size = 0;
    const put = (depth, text) => {
      const line = " ".repeat(depth) + text;
      size += line.length + 1;
      if (size <= most) lines.push(line);
      return size <= most;
    };
    const visit = (el, depth) => {
      if (SKIP.has(el.tagName.toUpperCase()) || size > most || hide && el.matches(hide)) return;
      const style = el.ownerDocument.defaultView.getComputedStyle(el);
      if (style.display === "none" || style.visibility === "hidden") return;
      let head = el.tagName.toLowerCase() + (ids.has(el) ? ` [${ids.get(el)}]` : "");
      for (const name of ATTRIBUTES)
        if (el.hasAttribute(name)) head += ` ${name}=${JSON.stringify(cut(el.getAttribute(name), 100))}`;
      if (!put(depth, `<${head}>`)) return;
      const doc = el.tagName === "IFRAME" ? frameDocument(el) : null;
      if (doc && doc.body) visit(doc.body, depth + 1);
      for (const child of (el.shadowRoot || el).childNodes) {
        if (child.nodeType === 1) visit(child, depth + 1);
        else if (child.nodeType === 3 && tidy(child.data)) put(depth + 1, tidy(child.data));
      }
    };
    if (document.body) visit(document.body, 0);
    if (size > most) lines.push("… cut");
    return lines.join("\n");
  };

  const frame = () => new Promise(done => {
    const timer = setTimeout(done, 60);
    requestAnimationFrame(() => { clearTimeout(timer); setTimeout(done, 0); });
  });
  const moving = () => document.getAnimations().filter(a => a.playState === "running" &&
    a.effect && a.effect.getComputedTiming().endTime < 5000).length;
  const version = () => `${changes} ${document.readyState} ${moving()} ${scrollX} ${scrollY}`;
  // Quiet for several frames on end, or not within `ms`.
  const settle = async (frames, ms) => {
    watch(document);
    const end = performance.now() + ms;
    let last = version(), equal = 0;
    while (performance.now() < end) {
      await frame();
      const now = version();
      equal = now === last && document.readyState === "complete" && !moving() ? equal + 1 : 0;
      if (equal >= frames) return true;
      last = now;
    }
    return false;
  };

  const get = id => { const ref = found.get(id); return ref ? ref.deref() : undefined; };
  const elementOf = node => node && node.nodeType === 3 ? node.parentElement : node;
  const offset = el => {
    let x = 0, y = 0, view = el.ownerDocument.defaultView;
    while (view && view !== window && view.frameElement) {
      const f = view.frameElement, r = f.getBoundingClientRect();
      x += r.left + f.clientLeft; y += r.top + f.clientTop;
      view = f.ownerDocument.defaultView;
    }
    return {x, y};
  };
  const hits = (el, x, y) => {
    let hit = el.ownerDocument.elementFromPoint(x, y);
    while (hit && hit.shadowRoot) {
      const inner = hit.shadowRoot.elementFromPoint(x, y);
      if (!inner || inner === hit) break;
      hit = inner;
    }
    return hit && (hit === el || el.contains(hit) || hit.contains(el) && el.tagName === "AREA");
  };

  const api = {
    look(limits) {
      next = Math.max(next, limits.first);
      big = isBig(limits.visits);
      const walk = new Walk(limits);
      walk.document(document, {x: 0, y: 0}, 0);
      const answer = {rows: walk.rows, cut: walk.cut, next, title: document.title};
      if (limits.dom) answer.dom = markup(limits.dom, limits.hide);
      return answer;
    },
    async still(limits) {
      await settle(limits.frames, limits.settle);
      return {big: isBig(limits.visits)};
    },
    async rest(limits) {
      const settled = await settle(limits.frames, limits.settle);
      return {settled, ...api.look(limits)};
    },
    // A point of the element that shows, brought into view at need.
    where(id) {
      const node = get(id), el = elementOf(node);
      if (!el || !el.isConnected) return null;
      if (el.tagName === "OPTION") return {option: true};
      for (const round of [0, 1]) {
        const at = offset(el);
        const one = node.nodeType === 3 ? textRect(node) : null;
        const rects = one ? [one] : [...el.getClientRects()].filter(r => r.width > 0 && r.height > 0);
        let fallback = null;
        for (const r of rects) {
          for (const [fx, fy] of [[.5, .5], [.25, .5], [.75, .5], [.5, .25], [.5, .75], [.1, .1]]) {
            const x = r.left + r.width * fx, y = r.top + r.height * fy;
            const inside = x + at.x >= 0 && y + at.y >= 0 &&
              x + at.x < innerWidth && y + at.y < innerHeight;
            if (!inside) continue;
            fallback = fallback || {x: x + at.x, y: y + at.y, covered: true};
            if (hits(el, x, y)) return {x: x + at.x, y: y + at.y, covered: false};
          }
        }
        if (round === 1) return fallback;
        if (fallback === null || !rects.length || fallback.covered)
          el.scrollIntoView({block: "center", inline: "center", behavior: "instant"});
      }
      return null;
    },
    focus(id, all) {
      const el = elementOf(get(id));
      if (!el || !el.isConnected) return "gone";
      el.focus({preventScroll: false});
      if (all && el.select) el.select();
      else if (all && el.isContentEditable)
        el.ownerDocument.getSelection().selectAllChildren(el);
      return "";
    },
    // Prepares an element to be typed over. "" typed as is, "set" done here, else why not.
    fill(id, text) {
      const el = elementOf(get(id));
      if (!el || !el.isConnected) return "gone";
      const tag = el.tagName;
      if (!["INPUT", "TEXTAREA"].includes(tag) && !el.isContentEditable) return "it takes no text";
      if (el.disabled || el.readOnly) return "it is disabled or read-only";
      if (tag === "INPUT" && ["checkbox", "radio", "button", "submit", "reset", "file", "image"]
        .includes(el.type)) return `it is a ${el.type}`;
      el.scrollIntoView({block: "nearest"});
      api.focus(id, true);
      if (tag === "INPUT" && DIRECT.has(el.type)) {
        const proto = el.ownerDocument.defaultView.HTMLInputElement.prototype;
        Object.getOwnPropertyDescriptor(proto, "value").set.call(el, text);
        if (el.value !== text) return `${el.type} takes no ${JSON.stringify(text.slice(0, 30))}`;
        el.dispatchEvent(new Event("input", {bubbles: true}));
        el.dispatchEvent(new Event("change", {bubbles: true}));
        return "set";
      }
      return "";
    },
    // Chooses options by label or value; options given by their own id choose themselves.
    select(id, labels) {
      let el = elementOf(get(id));
      if (!el || !el.isConnected) return "gone";
      let wanted;
      if (el.tagName === "OPTION") {
        wanted = [el];
        el = el.closest("select");
      }
      if (!el || el.tagName !== "SELECT") return "it is no list of options";
      if (el.disabled) return "it is disabled";
      if (!wanted) {
        wanted = [];
        for (const label of labels) {
          const option = [...el.options].find(o => tidy(o.label) === label) ||
            [...el.options].find(o => o.value === label);
          if (!option) {
            const some = [...el.options].slice(0, 20).map(o => tidy(o.label)).join(", ");
            return `no option ${JSON.stringify(label)}: choose of ${some}`;
          }
          wanted.push(option);
        }
        if (!el.multiple && wanted.length > 1) return "it takes one option";
      } else if (el.multiple) {
        wanted = [...el.selectedOptions].includes(wanted[0]) ?
          [...el.selectedOptions].filter(o => o !== wanted[0]) :
          [...el.selectedOptions, wanted[0]];
      }
      for (const option of el.options) option.selected = wanted.includes(option);
      el.dispatchEvent(new Event("input", {bubbles: true}));
      el.dispatchEvent(new Event("change", {bubbles: true}));
      return "";
    },
    file(id) {
      const el = elementOf(get(id));
      if (!el || !el.isConnected) return "gone";
      return el.tagName === "INPUT" && el.type === "file" ? "" : "it takes no file";
    },
    node(id) { return elementOf(get(id)); },
    check(selector, what) {
      const el = document.querySelector(selector);
      if (!el) return null;
      if (what === "value") return String(el.value);
      if (what === "checked") return String(!!el.checked);
      return tidy(el.innerText);
    },
  };
  globalThis.eye = api;
  return api;
})()
