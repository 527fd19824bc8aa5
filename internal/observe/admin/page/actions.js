// Buttons that change something: POST /api/actions/NAME. The result is shown beside the button.

const refusals = {
  401: "Refused: actions need the token of admin.token_file, or a client certificate. Press again; when the browser asks, enter any name, and the token as password. Without admin.token_file in the configuration actions are off.",
  403: "Refused: the request did not come from this page's own address.",
  404: "This gateway does not have this action: it may be an older version.",
};

const patienceMs = 300000; // the browser may ask for a password meanwhile
const hintMs = 1500;

// act requests an action. It returns the reason for a failure, or "" after a success.
export async function act(name, body) {
  let answer;
  try {
    answer = await fetch("api/actions/" + name, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal: AbortSignal.timeout(patienceMs) });
  } catch {
    return "No answer. Is the gateway running?";
  }
  if (answer.ok) return "";
  if (refusals[answer.status]) return refusals[answer.status];
  const text = (await answer.text()).trim();
  try {
    const { error, hint } = JSON.parse(text);
    return "Failed: " + [error, hint].filter(Boolean).join(": ");
  } catch {
    return "Failed: " + text;
  }
}

const busy = new WeakSet();

// once calls run unless an earlier call for the same button is still running, and shows the returned text beside the button.
export async function once(button, run) {
  if (busy.has(button)) return;
  busy.add(button);
  const region = button.closest("[data-acts]")?.querySelector("[data-said]");
  const say = (text) => { if (region) region.textContent = text; };
  say("");
  const slow = setTimeout(() => say("Waiting for the answer. If the browser asks for a password, enter any name, and the token of admin.token_file."), hintMs);
  let said = "This page could not read the answer.";
  try {
    said = await run();
  } finally {
    clearTimeout(slow);
    say(said);
    busy.delete(button);
  }
}
