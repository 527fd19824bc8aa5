// What a rule would save and cost with other settings, queried while its panel is open. A setting can be applied if actions are allowed.
import { act, once } from "./actions.js";
import { el, figure, table } from "./dom.js";
import { bytes, cores, count, micros, percent, perSecond, ratio } from "./format.js";
import { patch } from "./patch.js";

const everyMs = 5000, firstMs = 1500; // firstMs: until the first sample
const small = (...content) => el("div", { class: "small" }, ...content);

// WhatIf fills the panels below a node.
export class WhatIf {
  constructor(node, allowed, refreshed) {
    Object.assign(this, { node, allowed, refreshed, answers: true, due: 0, chosen: new Map() });
    node.addEventListener("toggle", (event) => this.toggled(event.target), true);
    node.addEventListener("click", (event) => this.pressed(event.target.closest(".whatif button")));
    setInterval(() => this.tick(), 500);
  }

  open() { return [...this.node.querySelectorAll(".whatif[open]")]; }

  toggled(details) {
    if (!details.open || !details.matches(".whatif")) return;
    if (this.doc) this.draw(details);
    else patch(panelOf(details), "Asking…");
    this.due = 0;
    this.tick();
  }

  async tick() {
    if (document.hidden || !this.answers || this.asking || Date.now() < this.due || this.open().length === 0) return;
    this.asking = true;
    this.due = Date.now() + everyMs;
    try {
      await this.ask();
    } finally {
      this.asking = false;
    }
  }

  async ask() {
    try {
      const answer = await fetch("api/whatif", { signal: AbortSignal.timeout(10000) });
      this.answers = answer.status !== 404;
      if (!this.answers) return this.each((panel) => patch(panel, "This gateway does not support forecasts."));
      if (!answer.ok) throw new Error(await answer.text());
      this.doc = await answer.json();
    } catch {
      return this.each((panel) => { if (!panel.hasChildNodes() || !this.doc) patch(panel, "No answer."); });
    }
    if (this.open().some((d) => !(this.find(d).rule?.sampled > 0))) this.due = Date.now() + firstMs;
    for (const details of this.open()) this.draw(details);
  }

  each(what) { this.open().forEach((details) => what(panelOf(details))); }

  find(details) {
    const gateway = this.doc.gateways.find((g) => g.gateway === details.dataset.of);
    return { gateway, rule: gateway?.rules.find((r) => r.rule === details.dataset.rule) };
  }

  draw(details) {
    const { gateway, rule } = this.find(details), panel = panelOf(details);
    if (!rule) return patch(panel, gateway?.unavailable ? "No forecast: " + gateway.unavailable : "Nothing is measured for this rule.");
    if (!rule.sampled) return patch(panel, "Sampling has begun; there are no values of this rule yet.");
    const may = this.doc.actions ? this.allowed() : [];
    const chosen = rule.choices.find((c) => c.setting === this.chosen.get(keyOf(details)));
    patch(panel, el("div", { "data-acts": "", "data-key": "choices" },
      small(`Measured on ${count(rule.sampled)} values (${bytes(rule.sampled_bytes)}) that passed just now; they are not kept.`),
      rule.applied ? fact(rule.applied, may) : null,
      table(`What other settings would do for rule ${rule.rule} of ${details.dataset.of}`,
        [["setting"], ["ratio"], ["saves"], ["compress"], ["open"], ["cores"], ["use it", true]], rule.choices.map((c) => choiceRow(c, may)), true),
      el("span", { class: "small", role: "status", "data-said": "", "data-keep": "", "data-key": "said" }),
      chosen ? el("pre", { tabindex: 0, role: "region", "aria-label": "YAML of " + chosen.setting, "data-key": "yaml" }, chosen.yaml) : null));
  }

  pressed(button) {
    if (!button) return;
    const details = button.closest(".whatif"), { gateway, rule } = this.find(details);
    const choice = rule.choices.find((c) => c.setting === button.dataset.choice);
    if (button.dataset.copy !== undefined) this.copy(button, details, choice);
    else if (button.dataset.action === "whatif-undo") this.change(button, "whatif-undo", { gateway: gateway.gateway, rule: rule.rule }, "Undone: the rule follows the configuration again.");
    else {
      const { codec, level, dictionary, min_size } = choice;
      this.change(button, "whatif-apply", { gateway: gateway.gateway, rule: rule.rule, codec, level, dictionary, min_size }, `In use until the next reload: ${choice.setting}.`);
    }
  }

  change(button, name, body, done) {
    once(button, async () => {
      const failed = await act(name, body);
      await Promise.all([this.ask(), this.refreshed()]);
      return failed || done;
    });
  }

  copy(button, details, choice) {
    once(button, async () => {
      this.chosen.set(keyOf(details), choice.setting);
      this.draw(details);
      if (await copied(choice.yaml, details.querySelector("pre"))) return `Copied: ${choice.setting}.`;
      return "The browser does not let this page copy. The text is selected: press Ctrl+C, or ⌘C.";
    });
  }
}

const panelOf = (details) => details.querySelector(".panel");
const keyOf = (details) => details.dataset.of + "\n" + details.dataset.rule;

// copied copies text. Without access to the clipboard, as on pages without TLS, it selects the text in pre.
async function copied(text, pre) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection().selectAllChildren(pre);
    return document.execCommand("copy");
  }
}

const time = (us) => us > 0 && us < 9.95 ? us.toFixed(1) + " µs" : micros(us);

function choiceRow(c, may) {
  const name = [c.leave ? el("span", null, c.setting) : el("strong", null, c.setting), c.current ? el("span", { class: "badge" }, "in use") : null];
  const cells = [name, el("strong", null, ratio(c.ratio)), c.leave ? "nothing" : perSecond(c.saved_bytes_per_second), time(c.compress_us), time(c.open_us), cores(c.cores), [
    c.yaml ? el("button", { type: "button", "data-copy": "", "data-choice": c.setting, "aria-label": "Copy YAML: " + c.setting }, "Copy YAML") : null,
    may.includes("whatif-apply") && !c.current ? el("button", { type: "button", "data-action": "whatif-apply", "data-choice": c.setting, "aria-label": `Apply ${c.setting} until the next reload`, title: "until the next reload" }, "Apply") : null,
  ]];
  cells.key = "choice " + c.setting + c.min_size;
  return cells;
}

// fact compares the forecast for an applied setting with the observed ratio.
function fact(a, may) {
  const off = Math.abs(a.observed_ratio / a.forecast_ratio - 1);
  const distance = !(a.forecast_ratio > 0) ? "without a forecast" : off < 0.001 ? "as forecast" : `${percent(off, 1)} ${a.observed_ratio < a.forecast_ratio ? "below" : "above"} it`;
  const came = a.observed_ratio > 0 ? ["observed ", figure("observed_ratio", a.observed_ratio, ratio(a.observed_ratio)), ` of ${count(a.values)} values, ${distance}.`] : ["no values since."];
  return el("p", { class: "acts", "data-key": "fact" },
    el("span", null, `Applied at ${new Date(a.at).toLocaleTimeString()}, until ${a.ends.replace(/^at /, "")}: `, el("strong", null, a.setting), ". Forecast ", figure("forecast_ratio", a.forecast_ratio, ratio(a.forecast_ratio)), "; ", came),
    may.includes("whatif-undo") ? el("button", { type: "button", "data-action": "whatif-undo" }, "Undo") : null);
}
