"use strict";
// Draws the plots, and keeps what is shown in the address: #systems=A,B&behind=1&theme=dark&at=SECTION.
(() => {
  const THEMES = ["system", "light", "dark"];
  const PRINTED_PIXELS = 325; // half the width of a page
  const config = {
    font: getComputedStyle(document.body).fontFamily,
    view: { stroke: null },
    axis: {
      domain: false, ticks: false, gridColor: "var(--line)", labelColor: "var(--muted)", titleColor: "var(--muted)",
      labelFontSize: 11, titleFontSize: 11, titleFontWeight: "normal", labelPadding: 6, titlePadding: 8,
    },
    axisYBand: { grid: false, labelColor: "var(--ink)" },
    axisYQuantitative: { titleAlign: "left", titleAngle: 0, titleX: 0, titleY: -10, titleAnchor: "end" },
  };
  const refuse = () => Promise.reject(new Error("a report asks no network"));

  function draw(figure) {
    const specification = JSON.parse(figure.querySelector("script").textContent);
    const compiled = vegaLite.compile(specification, { config }).spec;
    const view = new vega.View(vega.parse(compiled), {
      renderer: "svg",
      container: figure.querySelector(".plot"),
      loader: { load: refuse, sanitize: refuse },
      hover: false,
      logLevel: vega.Error,
    });
    // Drawn anew for paper, or letters would shrink with the plot.
    addEventListener("beforeprint", () => view.width(PRINTED_PIXELS).run());
    addEventListener("afterprint", () => view.width(figure.clientWidth).run());
    return view.runAsync();
  }

  const all = [...document.querySelectorAll("button[data-system]")].map((button) => button.dataset.system);
  const behind = document.getElementById("behind");
  const theme = document.getElementById("theme");

  function read() {
    const given = new URLSearchParams(location.hash.slice(1));
    const systems = given.has("systems") ? given.get("systems").split(",").filter((name) => all.includes(name)) : all;
    return {
      systems: new Set(systems.length ? systems : all),
      behind: given.get("behind") === "1",
      theme: THEMES.includes(given.get("theme")) ? given.get("theme") : "system",
      at: given.get("at"),
    };
  }

  function write(state) {
    const kept = new URLSearchParams();
    if (state.systems.size < all.length) kept.set("systems", all.filter((name) => state.systems.has(name)).join(","));
    if (state.behind) kept.set("behind", "1");
    if (state.theme !== "system") kept.set("theme", state.theme);
    if (state.at) kept.set("at", state.at);
    history.replaceState(null, "", `#${kept}`);
  }

  function show(state) {
    document.documentElement.dataset.theme = state.theme;
    theme.textContent = `Theme: ${state.theme}`;
    behind.setAttribute("aria-pressed", state.behind);
    for (const button of document.querySelectorAll("button[data-system]")) {
      button.setAttribute("aria-pressed", state.systems.has(button.dataset.system));
    }
    for (const part of document.querySelectorAll("main [data-system]")) {
      const lacks = state.behind && part.dataset.behind === "no";
      part.hidden = !state.systems.has(part.dataset.system) || lacks;
    }
    // A plot that was hidden had no width to be drawn in.
    window.dispatchEvent(new Event("resize"));
  }

  function change(act) {
    const state = read();
    act(state);
    write(state);
    show(state);
  }

  for (const button of document.querySelectorAll("button[data-system]")) {
    button.addEventListener("click", () => change((state) => {
      const name = button.dataset.system;
      // The first click picks one system; further clicks add and take away; none is all.
      if (state.systems.size === all.length) state.systems = new Set([name]);
      else if (!state.systems.delete(name)) state.systems.add(name);
      if (!state.systems.size) state.systems = new Set(all);
      state.at = null;
    }));
  }
  behind.addEventListener("click", () => change((state) => { state.behind = !state.behind; }));
  theme.addEventListener("click", () => change((state) => {
    state.theme = THEMES[(THEMES.indexOf(state.theme) + 1) % THEMES.length];
  }));
  for (const link of document.querySelectorAll('a[href^="#at="]')) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      change((state) => { state.at = link.getAttribute("href").slice("#at=".length); });
      go();
    });
  }
  function go() {
    const { at } = read();
    if (at) document.getElementById(at)?.scrollIntoView();
  }
  addEventListener("hashchange", () => { show(read()); go(); });

  show(read());
  Promise.all([...document.querySelectorAll("figure")].map(draw)).then(() => {
    document.documentElement.dataset.drawn = "yes";
    go();
  });
})();
