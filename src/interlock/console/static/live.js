// Keeps open pages current. One tab of the browser holds the event stream and tells the others; when it closes, another
// takes over. Parts of a page that an event concerns are fetched again and morphed in place, so nothing jumps.

const url = document.body.dataset.live;
const root = document.body.dataset.root;
const LOCK = `interlock-stream:${root}`;
const channel = new BroadcastChannel(LOCK);
const live = document.getElementById("live");
const pause = document.getElementById("pause");
const away = document.getElementById("away");
const WAIT_MS = 150;
// However much happens, a page is not fetched more often than this; one that is not looked at, less often.
const REST_MS = 1000;
const HIDDEN_REST_MS = 5000;
let fetchedAt = -HIDDEN_REST_MS;
let paused = false;
let missed = false;
let lastId = document.body.dataset.after || "";
const kept = [];
const KEPT_MAX = 500;
const stale = new Set();
let timer = 0;

function concerns(element, event) {
  const about = (element.dataset.refresh || "").split(" ").filter(Boolean);
  if (event === null || about.length === 0) return true;
  const kind = (event.type || "").replace(/^dev\.interlock\./, "").split(".")[0];
  const subject = event.subject || "";
  return about.some((word) => {
    if (word.includes(":")) {
      const wanted = word.slice(word.indexOf(":") + 1);
      return subject.includes(wanted) || JSON.stringify(event.data || {}).includes(wanted) || kind === "policy" || kind === "target" || kind === "lease" || kind === "conflict";
    }
    return kind === word || subject.startsWith(word) || (event.type || "").includes(word);
  });
}

function happened(event) {
  if (paused) { missed = true; return; }
  for (const element of document.querySelectorAll("[data-refresh]")) {
    if (concerns(element, event)) stale.add(element.id);
  }
  // News of everything is fetched also by a page with no part to renew: it learns whether the store answers.
  if (stale.size || event === null) refreshSoon();
}

function refreshSoon() {
  const rest = fetchedAt + (document.hidden ? HIDDEN_REST_MS : REST_MS) - performance.now();
  timer ||= setTimeout(refresh, Math.max(WAIT_MS, rest));
}

// Whether the store answers is said also while updates are paused.
function again() { if (paused) refresh(); else happened(null); }

// One at a time: an answer that was made earlier must not come last.
let asking = false;
async function refresh() {
  timer = 0;
  if (asking) return;
  asking = true;
  fetchedAt = performance.now();
  try { await fetchAgain(); } finally {
    asking = false;
    if (stale.size) refreshSoon();
  }
}

async function fetchAgain() {
  const ids = [...stale];
  stale.clear();
  const here = location.pathname + location.search;
  let response;
  try {
    response = await fetch(here, { headers: { "HX-Request": "true", Accept: "text/html" } });
  } catch { return gone("The server does not answer."); }
  if (response.status === 401) { location.assign(response.headers.get("HX-Redirect") || location.href); return; }
  if (response.status >= 500) return gone(response.status === 503 ? "The store does not answer." : "The server does not answer.");
  back();
  if (paused) { missed = true; return; }
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  if (page.body.dataset.waiting !== undefined) {
    notify(Number(page.body.dataset.waiting) - Number(document.body.dataset.waiting));
    document.body.dataset.waiting = page.body.dataset.waiting;
    count();
  }
  for (const id of ids) {
    const old = document.getElementById(id);
    const fresh = page.getElementById(id);
    if (!old || !fresh || old.outerHTML === fresh.outerHTML) continue;
    if (old.dataset.list !== undefined) renewList(old, fresh);
    else morph(old, fresh);
  }
}

function morph(old, fresh) {
  const typed = document.activeElement;
  // What a person is writing stays; so does what they decided to look at.
  const keep = typed?.matches("input, textarea") && old.contains(typed) ? { id: typed.id, value: typed.value } : null;
  const reason = old.querySelector("#reason")?.value;
  const before = old.dataset.hash;
  keepOpen(old, fresh);
  keepSaid(old, fresh);
  window.htmx.swap({ target: old, text: fresh.outerHTML, swap: "outerMorph" });
  const now = document.getElementById(fresh.id);
  if (keep?.id) { const field = document.getElementById(keep.id); if (field) { field.value = keep.value; field.focus(); } }
  if (reason && now?.querySelector("#reason")) now.querySelector("#reason").value = reason;
  if (before && now && before !== now.dataset.hash) {
    now.classList.add("glow");
    document.dispatchEvent(new CustomEvent("interlock:changed"));
  }
  document.dispatchEvent(new CustomEvent("interlock:morphed"));
}

// What the reader unfolded stays unfolded.
function keepOpen(old, fresh) {
  const was = [...old.querySelectorAll("details")], is = [...fresh.querySelectorAll("details")];
  is.forEach((details, index) => {
    const same = details.id ? was.find((other) => other.id === details.id) : was.length === is.length ? was[index] : null;
    if (same) details.open = same.open;
  });
}

// What a person was told about the form that they sent stays until they leave the page.
function keepSaid(old, fresh) {
  const said = old.querySelector("[data-said-once]");
  if (!said || fresh.querySelector("[data-said-once]")) return;
  let place = fresh.querySelector("[role=alert]");
  if (!place) {
    place = fresh.ownerDocument.createElement("div");
    place.setAttribute("role", "alert");
    fresh.querySelector("#outcome")?.after(place);
  }
  place.prepend(said.cloneNode(true));
}

// A list changes in place: rows that are over are marked, and new ones wait behind a button until the reader wants them.
function renewList(old, fresh) {
  const rows = (list) => new Map([...list.querySelectorAll("[data-row]")].map((row) => [row.dataset.id, row]));
  const was = rows(old), is = rows(fresh);
  // In a log nothing is ever over: what is missing is on the next page.
  const isLog = old.dataset.list === "log";
  for (const [id, row] of was) {
    const now = is.get(id);
    row.toggleAttribute("data-over", !now && !isLog);
    if (now && now.dataset.hash !== row.dataset.hash) { row.replaceWith(now); now.classList.add("glow"); }
    else if (now) {
      const votes = row.querySelector(".votes");
      if (votes && votes.textContent !== now.querySelector(".votes")?.textContent) { votes.replaceWith(now.querySelector(".votes")); row.classList.add("glow"); }
    }
  }
  const fresher = [...is.keys()].filter((id) => !was.has(id)).length;
  const over = isLog ? 0 : [...was.keys()].filter((id) => !is.has(id)).length;
  if (!was.size || (fresher && !old.contains(document.activeElement) && window.scrollY < 80 && !document.querySelector("[data-row] input:checked"))) {
    morph(old, fresh);
    return;
  }
  const button = old.querySelector("[data-news]");
  if (!button) return;
  button.hidden = !(fresher || over);
  button.textContent = [fresher ? `${fresher} new` : "", over ? `${over} ${old.dataset.gone || "no longer waiting"}` : ""].filter(Boolean).join(" · ");
  button.onclick = () => { button.hidden = true; morph(old, fresh); };
}

let awaySince = null;
let retry = 0;
function gone(text) {
  awaySince ??= new Date();
  away.textContent = `${text} Since ${awaySince.toLocaleTimeString()}. What is on this page stays; it goes on by itself.`;
  away.hidden = false;
  retry ||= setTimeout(() => { retry = 0; again(); }, 2000);
}
function back() { awaySince = null; away.hidden = true; }

function count() {
  const waiting = Number(document.body.dataset.waiting || 0);
  document.title = document.title.replace(/^\(\d+\+?\) /, "");
  if (waiting) document.title = `(${waiting > 99 ? "99+" : waiting}) ${document.title}`;
  const icon = document.querySelector("link[rel=icon]");
  if (!icon) return;
  icon.dataset.plain ??= icon.href;
  if (!waiting) { icon.href = icon.dataset.plain; return; }
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 32;
  const pen = canvas.getContext("2d");
  pen.fillStyle = "#1f4f8f"; pen.fillRect(0, 0, 32, 32);
  pen.fillStyle = "#fff"; pen.font = "bold 20px sans-serif"; pen.textAlign = "center"; pen.textBaseline = "middle";
  pen.fillText(waiting > 99 ? "99" : String(waiting), 16, 18);
  icon.href = canvas.toDataURL("image/png");
}

// Browser notifications, if the person allows them: from the tab that holds the stream, so that there is one. They tell
// of requests that this person may decide, and of no others.
let asked = null;
function notify(more) {
  const request = asked;
  asked = null;
  if (!request || more <= 0 || document.documentElement.dataset.leads === undefined || !document.hidden) return;
  if (localStorage.getItem("interlock-notify") !== "yes" || window.Notification?.permission !== "granted") return;
  const text = more === 1 ? `${request.topic} waits for your decision` : `${more} more requests wait for your decision`;
  const note = new Notification("Interlock", { body: text, tag: "interlock" });
  note.onclick = () => {
    window.focus();
    location.assign(`${root}/console/${more === 1 ? `approvals/${request.id}` : "inbox"}`);
  };
}

function heard(event, id) {
  if (Number(id) <= Number(lastId)) return;
  lastId = id;
  if ((event.type || "").endsWith("approval.requested")) asked = { id: event.subject, topic: event.data?.topic || "A request" };
  happened(event);
}

channel.onmessage = ({ data }) => {
  if (data.kind === "event") heard(data.event, data.id);
  if (data.kind === "again") again();
  // A tab that was just opened asks for what happened since its page was made; the tab with the stream knows.
  if (data.kind === "since" && document.documentElement.dataset.leads !== undefined) {
    for (const each of kept) if (Number(each.id) > Number(data.after)) channel.postMessage({ kind: "event", ...each });
    if (kept.length === KEPT_MAX) channel.postMessage({ kind: "again" });
  }
};

function connect() {
  const source = new EventSource(lastId ? `${url}?after=${lastId}` : url);
  source.onopen = () => { live.hidden = false; if (awaySince) happened(null); };
  source.onmessage = ({ data, lastEventId }) => {
    const event = JSON.parse(data);
    // Without a type it is word of a gap, or of the store: whatever was missed is on the pages once they are fetched again.
    if (!event.type) { again(); channel.postMessage({ kind: "again" }); return; }
    kept.push({ event, id: lastEventId });
    if (kept.length > KEPT_MAX) kept.shift();
    channel.postMessage({ kind: "event", event, id: lastEventId });
    heard(event, lastEventId);
  };
  source.onerror = () => {
    gone("The connection is interrupted.");
    // The browser tries again by itself, unless the answer was an error.
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, 2000 + Math.random() * 2000);
  };
}

function lead() {
  navigator.locks.request(LOCK, () => new Promise(() => {
    document.documentElement.dataset.leads = "";
    connect();
  }));
}

if (url && window.EventSource && navigator.locks) {
  live.hidden = false;
  lead();
  channel.postMessage({ kind: "since", after: lastId });
}
// Not everything that changes is an event: a lease that is renewed is only seen by looking.
setInterval(() => {
  if (paused || document.hidden) return;
  for (const element of document.querySelectorAll("[data-every]")) stale.add(element.id);
  if (stale.size) refreshSoon();
}, 10000);
pause?.addEventListener("click", () => {
  paused = !paused;
  pause.setAttribute("aria-pressed", String(paused));
  pause.textContent = paused ? "paused" : "live";
  if (!paused && missed) { missed = false; happened(null); }
});

const asks = document.getElementById("notify");
if (asks && window.Notification && url) {
  const tell = () => {
    const is = localStorage.getItem("interlock-notify") === "yes" && Notification.permission === "granted";
    asks.textContent = is ? "Stop notifying me in this browser" : "Notify me in this browser";
    asks.setAttribute("aria-pressed", String(is));
    return is;
  };
  asks.hidden = false;
  tell();
  asks.addEventListener("click", async () => {
    const wanted = !tell() && (await Notification.requestPermission()) === "granted";
    localStorage.setItem("interlock-notify", wanted ? "yes" : "no");
    tell();
  });
}

// Says that this request is open, and learns who else has it open.
const look = document.querySelector("[data-look]");
async function looking() {
  const place = document.querySelector("[data-look]");
  if (!place || document.hidden) return;
  try {
    const response = await fetch(place.dataset.look, { method: "POST", headers: { "HX-Request": "true", "Content-Type": "application/x-www-form-urlencoded" } });
    if (response.ok) {
      const text = (await response.text()).trim();
      if (text !== place.dataset.said) { place.dataset.said = text; window.htmx.swap({ target: place, text, swap: "innerHTML" }); }
    }
  } catch { /* the banner says that the server is away */ }
}
if (look) { looking(); setInterval(looking, 15000); }
count();
// On a phone the menu is one line: the page that is open is in sight.
const menu = document.querySelector(".side ul");
const open = menu?.querySelector("[aria-current]")?.getBoundingClientRect();
if (open) menu.scrollLeft += open.left + open.width / 2 - menu.getBoundingClientRect().left - menu.clientWidth / 2;
