// Keys for people who decide many requests. Every key has a button or a link that does the same.

const help = document.getElementById("help");
const rows = () => [...document.querySelectorAll("[data-row]")];
let at = -1;
let went = 0;

for (const button of document.querySelectorAll("[data-help]")) {
  button.hidden = false;
  button.addEventListener("click", () => help.showModal());
}

function move(step) {
  const list = rows();
  if (!list.length) return false;
  const focused = list.findIndex((row) => row.contains(document.activeElement));
  at = Math.max(0, Math.min(list.length - 1, (focused >= 0 ? focused : at) + step));
  list.forEach((row, index) => row.toggleAttribute("data-at", index === at));
  const link = list[at].querySelector("a");
  link?.focus({ preventScroll: true });
  list[at].scrollIntoView({ block: "nearest" });
  return true;
}

function press(key) {
  const target = document.querySelector(`[data-key="${CSS.escape(key)}"]`);
  // What is not offered, such as deciding a selection of nothing, has no key.
  if (!target?.checkVisibility()) return false;
  if (target.matches("input")) { target.focus(); return true; }
  const needs = target.dataset.needs && document.getElementById(target.dataset.needs);
  if (needs && !needs.value.trim()) {
    ask(needs, key, "why? Enter rejects");
    return true;
  }
  target.click();
  return true;
}

// While a person answers, Enter in the field does what they were asked about; once they have left it, no longer. What is
// asked is kept here and not in the page, of which a part may be renewed meanwhile.
let asked = null;
function ask(field, key, words) {
  asked = { id: field.id, key };
  const before = field.placeholder;
  field.placeholder = words;
  field.focus();
  field.addEventListener("blur", () => { if (field.isConnected) { asked = null; field.placeholder = before; } }, { once: true });
}

function act(key) {
  if (key === "?") { help.open ? help.close() : help.showModal(); return true; }
  if ((key === "j" || key === "k") && rows().length) return move(key === "j" ? 1 : -1);
  if (key === "x" && rows()[at]) { rows()[at].querySelector("input[type=checkbox]")?.click(); return true; }
  if (key === "g") { went = Date.now(); return true; }
  if (key === "i" && Date.now() - went < 1500) { location.assign(`${document.body.dataset.root}/console/inbox`); return true; }
  return press(key);
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  // What lies behind a dialog is not what a person looks at; a key that is held down is one press.
  if (document.querySelector("dialog[open]") && event.key !== "?") return;
  if (event.repeat && !"jk".includes(event.key)) return;
  const field = event.target.closest("input:not([type=checkbox]), textarea, select");
  if (event.key === "Escape") { field?.blur(); return; }
  if (field) {
    if (event.key === "Enter" && asked?.id === field.id && field.value.trim()) {
      event.preventDefault();
      document.querySelector(`[data-key="${asked.key}"]`)?.click();
    }
    return;
  }
  // The first row is a key away: Enter opens it, unless the person chose something else.
  if (event.key === "Enter" && document.activeElement === document.body && rows().length) {
    event.preventDefault();
    (rows()[at] || rows()[0]).querySelector("a")?.click();
    return;
  }
  if (event.key.length === 1 && act(event.key)) event.preventDefault();
});

// A click on Reject without a reason asks for one, instead of a trip to the server.
document.addEventListener("click", (event) => {
  const button = event.target.closest?.("button[data-needs]");
  const needs = button && document.getElementById(button.dataset.needs);
  if (needs && !needs.value.trim()) {
    event.preventDefault();
    needs.setAttribute("aria-invalid", "true");
    ask(needs, button.dataset.key, "say why");
  }
});

// What changed under the eyes of a reader is not decided by a press that was meant for what it was.
const SETTLES_MS = 1500;
let changedAt = -SETTLES_MS;
document.addEventListener("interlock:changed", () => { changedAt = performance.now(); });
document.addEventListener("submit", (event) => {
  if (event.target.id !== "decide" || performance.now() - changedAt > SETTLES_MS) return;
  event.preventDefault();
  const said = document.getElementById("outcome");
  if (said) said.textContent = "This changed just now, so nothing was sent. Read it again, then decide.";
});
