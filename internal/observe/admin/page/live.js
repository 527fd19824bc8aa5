// Brings /api/status: as events, and by asking where there are none. Nothing while nobody sees the page.

const refreshMs = 2000;
const silentMs = 10000; // events that stay away for so long are taken for lost
const retryMs = 60000; // when events are tried again

// live calls show with each document, and lost when there is none to be had. It returns how to ask right now.
export function live(show, lost) {
  let source = null, heard = 0, again = 0, asking = false;

  function listen() {
    source = new EventSource("api/events");
    heard = Date.now();
    source.addEventListener("status", (event) => {
      heard = Date.now();
      again = 0;
      show(JSON.parse(event.data));
    });
    source.onerror = () => {
      heard = 0;
      tick();
    };
  }

  function quiet(until) {
    source?.close();
    source = null;
    again = until;
  }

  async function ask() {
    if (asking) return;
    asking = true;
    try {
      const answer = await fetch("api/status", { signal: AbortSignal.timeout(5000) });
      if (!answer.ok) throw new Error("answered " + answer.status);
      const status = await answer.json();
      if (!document.hidden) show(status);
    } catch {
      lost();
    } finally {
      asking = false;
    }
  }

  function tick() {
    if (document.hidden) return;
    const now = Date.now();
    if (!source && now >= again) listen();
    if (source && now - heard < silentMs) return;
    if (source && heard > 0 || source?.readyState === EventSource.CLOSED) quiet(now + retryMs); // else the browser connects again by itself
    ask();
  }

  document.addEventListener("visibilitychange", () => document.hidden ? quiet(0) : tick());
  setInterval(tick, refreshMs);
  tick();
  return ask;
}
