// Receives /api/status as events, or polls it if events don't arrive. It does neither while the page is hidden.

const refreshMs = 2000;
const silentMs = 10000; // after this time without an event the connection counts as lost
const retryMs = 60000; // until events are tried again

// live calls show with each document, and lost when a request fails. It returns a function that polls at once.
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
    if (source && heard > 0 || source?.readyState === EventSource.CLOSED) quiet(now + retryMs); // otherwise the browser reconnects by itself
    ask();
  }

  document.addEventListener("visibilitychange", () => document.hidden ? quiet(0) : tick());
  setInterval(tick, refreshMs);
  tick();
  return ask;
}
