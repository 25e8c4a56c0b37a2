// Line numbers beside the policy's text, with the lines that something is said about marked. Without this script the
// text is a plain field, and what is wrong is listed by line above it.

customElements.define("line-numbers", class extends HTMLElement {
  connectedCallback() {
    this.field = this.querySelector("textarea");
    if (!this.field || this.gutter) return;
    this.gutter = document.createElement("div");
    this.gutter.className = "gutter";
    this.gutter.setAttribute("aria-hidden", "true");
    this.prepend(this.gutter);
    this.marked = new Set((this.dataset.lines || "").split(" ").filter(Boolean).map(Number));
    this.field.addEventListener("input", () => this.draw());
    this.field.addEventListener("scroll", () => { this.gutter.scrollTop = this.field.scrollTop; });
    this.draw();
  }
  draw() {
    const count = this.field.value.split("\n").length;
    if (count === this.gutter.childElementCount) return;
    this.gutter.replaceChildren(...Array.from({ length: count }, (_, index) => {
      const line = document.createElement("div");
      line.textContent = String(index + 1);
      line.toggleAttribute("data-remarked", this.marked.has(index + 1));
      return line;
    }));
    this.gutter.scrollTop = this.field.scrollTop;
  }
  go(number) {
    const lines = this.field.value.split("\n");
    const start = lines.slice(0, number - 1).reduce((sum, line) => sum + line.length + 1, 0);
    this.field.focus();
    this.field.setSelectionRange(start, start + (lines[number - 1] || "").length);
    this.field.scrollTop = Math.max(0, (number - 4) * parseFloat(getComputedStyle(this.field).lineHeight));
  }
});

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("[data-line]");
  const editor = link && document.querySelector("line-numbers");
  if (!editor) return;
  event.preventDefault();
  editor.go(Number(link.dataset.line));
});
