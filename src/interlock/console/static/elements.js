// Times that count by themselves, and ids that copy themselves. Without this script pages show exact times.

const STEPS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

export function spoken(seconds) {
  let left = Math.max(0, Math.round(seconds));
  const parts = [];
  for (const [unit, size] of STEPS) {
    const count = Math.floor(left / size);
    left -= count * size;
    if (count) parts.push(`${count} ${unit}`);
    if (parts.length === (parts[0]?.endsWith("d") || parts[0]?.endsWith("h") ? 2 : 1) && unit !== "d") break;
  }
  return parts.slice(0, 2).join(" ") || "0 s";
}

class Timed extends HTMLElement {
  static observedAttributes = ["datetime"];
  connectedCallback() {
    this.tell();
    this.timer = setInterval(() => this.tell(), 1000);
  }
  disconnectedCallback() { clearInterval(this.timer); }
  attributeChangedCallback() { if (this.isConnected) this.tell(); }
  get seconds() { return (Date.parse(this.getAttribute("datetime")) - Date.now()) / 1000; }
  say(text) { if (this.textContent !== text) this.textContent = text; }
}

customElements.define("relative-time", class extends Timed {
  tell() {
    const seconds = this.seconds;
    if (Number.isNaN(seconds)) return;
    if (Math.abs(seconds) < 5) this.say("now");
    else this.say(seconds < 0 ? `${spoken(-seconds)} ago` : `in ${spoken(seconds)}`);
  }
});

customElements.define("count-down", class extends Timed {
  tell() {
    const seconds = this.seconds;
    if (Number.isNaN(seconds)) return;
    this.say(seconds > 0 ? `in ${spoken(seconds)}` : `${spoken(-seconds)} ago`);
    this.toggleAttribute("data-soon", seconds < 900);
  }
});

document.addEventListener("dblclick", (event) => {
  const id = event.target.closest?.("[data-copy]");
  if (id) navigator.clipboard?.writeText(id.dataset.copy);
});
document.addEventListener("copy", (event) => {
  const node = document.getSelection()?.anchorNode?.parentElement?.closest("[data-copy]");
  if (node && document.getSelection().toString().trim() === node.textContent.trim()) {
    event.clipboardData.setData("text/plain", node.dataset.copy);
    event.preventDefault();
  }
});
