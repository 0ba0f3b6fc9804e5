/** The server's events. The browser reconnects after a lost connection, but not after an answer that is an error. */

import type { Change, Snapshot } from "./model";

const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 15_000;
/** More than twice what the server is silent at most (server.py, _HEARTBEAT_S): `alive` comes when nothing changes. */
const SILENCE_MS = 25_000;

export interface Handlers {
  onState(snapshot: Snapshot): void;
  onChange(change: Change): void;
  onConnection(connected: boolean): void;
}

export function listen(url: string, handlers: Handlers): () => void {
  let source: EventSource | null = null;
  let waitMs = FIRST_WAIT_MS;
  let retry: number | undefined;
  let silence: number | undefined;

  const heard = () => {
    waitMs = FIRST_WAIT_MS;
    handlers.onConnection(true);
    clearTimeout(silence);
    silence = window.setTimeout(lost, SILENCE_MS);
  };
  const lost = () => {
    source?.close();
    source = null;
    clearTimeout(silence);
    clearTimeout(retry);
    handlers.onConnection(false);
    retry = window.setTimeout(connect, waitMs);
    waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS);
  };
  const connect = () => {
    source = new EventSource(url);
    source.addEventListener("state", (event) => {
      handlers.onState(JSON.parse(event.data) as Snapshot);
      heard();
    });
    source.addEventListener("change", (event) => {
      handlers.onChange(JSON.parse(event.data) as Change);
      heard();
    });
    source.addEventListener("alive", heard);
    source.addEventListener("error", lost);
  };

  connect();
  return () => {
    source?.close();
    clearTimeout(silence);
    clearTimeout(retry);
  };
}
