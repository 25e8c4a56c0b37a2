// Markup that htmx puts into a page comes from this server, which escapes it. Scripts are made from text nowhere.
if (window.trustedTypes?.createPolicy) {
  window.trustedTypes.createPolicy("default", {
    createHTML: (text) => text,
    createScript: () => null,
    createScriptURL: () => null,
  });
}
