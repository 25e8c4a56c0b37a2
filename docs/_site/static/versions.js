// Fills the choice of versions, and leads to the same page of the chosen one where it is known to have it.
for (const chooser of document.querySelectorAll(".site-versions")) {
  const { current, root, page } = chooser.dataset;
  const select = chooser.querySelector("select");
  const versions = window.INTERLOCK_VERSIONS ?? [{ name: current, pages: [page] }];
  select.replaceChildren(
    ...versions.map(({ name }) => new Option(name, name, name === current, name === current)),
  );
  select.addEventListener("change", () => {
    const chosen = versions.find(({ name }) => name === select.value);
    const where = chosen.pages.includes(page) ? page : "index.html";
    window.location.href = `${root}/${chosen.name}/${where}`;
  });
}
