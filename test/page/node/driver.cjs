// Drives Chromium for the tests in Go: reads a JSON document a line, {"do": NAME, ...}, and answers each with one,
// {"result": ...} or {"error": "..."}. The path of Chromium is the only argument.
"use strict";

const readline = require("node:readline");
const { chromium } = require("playwright-core");
const axe = require("axe-core");

const tabs = new Map();
let browser;

// open makes a tab with a profile of its own, in which everything that is asked for, printed or refused is written down.
async function open({ tab, url, width, height, scheme, password }) {
  const context = await browser.newContext({
    viewport: { width, height }, colorScheme: scheme, reducedMotion: "reduce", acceptDownloads: false,
    ...(password ? { httpCredentials: { username: "test", password } } : {}),
  });
  context.setDefaultTimeout(60000);
  const page = await context.newPage();
  const seen = { requests: [], messages: [], violations: [] };
  page.on("console", (m) => { if (["error", "warning"].includes(m.type())) seen.messages.push(`${m.type()}: ${m.text()} (${m.location().url})`); });
  page.on("pageerror", (e) => seen.messages.push("thrown: " + (e.stack ?? e)));
  await page.exposeFunction("cinchViolation", (v) => { seen.violations.push(v); });
  await page.addInitScript(() => document.addEventListener("securitypolicyviolation", (e) => window.cinchViolation(`${e.violatedDirective}: ${e.blockedURI} ${e.sourceFile}:${e.lineNumber}`)));
  const cdp = await context.newCDPSession(page);
  await count(cdp, seen);
  await cdp.send("Performance.enable", { timeDomain: "threadTicks" }); // CPU time, not the clock's
  tabs.set(tab, { context, page, seen, cdp });
  await page.goto(url, { waitUntil: "load" });
}

// count writes down each request with the bytes that came over the wire for it, headers included.
async function count(cdp, seen) {
  const all = new Map();
  cdp.on("Network.requestWillBeSent", ({ requestId, request, type }) => {
    const r = { url: request.url, type: type ?? "", method: request.method, status: 0, bytes: 0, failed: "" };
    all.set(requestId, r);
    seen.requests.push(r);
  });
  cdp.on("Network.responseReceived", ({ requestId, response }) => { const r = all.get(requestId); if (r) r.status = response.status; });
  cdp.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => { const r = all.get(requestId); if (r) r.bytes = encodedDataLength; });
  cdp.on("Network.loadingFailed", ({ requestId, errorText }) => { const r = all.get(requestId); if (r) r.failed = errorText; });
  await cdp.send("Network.enable");
}

const of = ({ tab }) => tabs.get(tab);

const commands = {
  open,
  seen: (c) => of(c).seen,
  // eval takes an expression; a promise is waited for.
  eval: (c) => of(c).page.evaluate(c.js),
  size: (c) => of(c).page.setViewportSize({ width: c.width, height: c.height }),
  scheme: (c) => of(c).page.emulateMedia({ colorScheme: c.scheme }),
  press: (c) => of(c).page.keyboard.press(c.key),
  click: (c) => of(c).page.click(c.selector),
  shot: (c) => of(c).page.screenshot({ path: c.path, fullPage: c.full }).then(() => null),
  // tree is what a screen reader is given.
  tree: (c) => of(c).page.locator("body").ariaSnapshot(),
  async axe(c) {
    const { page } = of(c);
    if (!await page.evaluate("Boolean(window.axe)")) await page.evaluate(axe.source);
    const found = await page.evaluate(async (tags) => {
      const resultTypes = ["violations", "incomplete"]; // of what passes, only the rules are counted: naming each element takes long
      const { violations, incomplete, passes } = await axe.run(document, { runOnly: { type: "tag", values: tags }, resultTypes });
      const brief = (list) => list.map((r) => ({ rule: r.id, impact: r.impact, help: r.help, nodes: r.nodes.map((n) => `${n.target}: ${n.html.slice(0, 200)} ${n.failureSummary}`) }));
      return { violations: brief(violations), incomplete: brief(incomplete), passes: passes.length };
    }, c.tags);
    return found;
  },
  // cpu is seconds: of the tab's main thread, and of all processes of Chromium.
  async cpu(c) {
    const { metrics } = await of(c).cdp.send("Performance.getMetrics");
    const session = await browser.newBrowserCDPSession();
    const { processInfo } = await session.send("SystemInfo.getProcessInfo");
    await session.detach();
    const processes = {};
    for (const p of processInfo) processes[p.type] = (processes[p.type] ?? 0) + p.cpuTime;
    return { task: metrics.find((m) => m.name === "TaskDuration").value, heap: metrics.find((m) => m.name === "JSHeapUsedSize").value, processes };
  },
  async close(c) {
    await of(c)?.context.close();
    tabs.delete(c.tab);
  },
};

async function main() {
  browser = await chromium.launch({ executablePath: process.argv[2], args: ["--no-sandbox", "--disable-dev-shm-usage"] });
  console.log(JSON.stringify({ result: browser.version() }));
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    try {
      console.log(JSON.stringify({ result: (await commands[command.do](command)) ?? null }));
    } catch (e) {
      console.log(JSON.stringify({ error: String(e.stack ?? e) }));
    }
  }
  await browser.close();
}

main().catch((e) => { console.error(e); process.exit(1); });
