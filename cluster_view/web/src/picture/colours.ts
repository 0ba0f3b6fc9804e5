/** The canvas takes its colours from the style sheet, light or dark. */

import { useEffect, useState } from "preact/hooks";
import type { Phase } from "../model";

export interface Colours {
  phase: Record<Phase, string>;
  taken: string;
  free: string;
  freeLine: string;
  ink: string;
  soft: string;
  track: string;
  fast: string;
  failed: string;
  focus: string;
}

export function readColours(): Colours {
  const style = getComputedStyle(document.documentElement);
  const of = (name: string) => style.getPropertyValue(`--${name}`).trim();
  return {
    phase: {
      Pending: of("pending"),
      Creating: of("creating"),
      Ready: of("ready"),
      Terminating: of("terminating"),
      Failed: of("failed"),
    },
    taken: of("taken"),
    free: of("free"),
    freeLine: of("free-line"),
    ink: of("ink"),
    soft: of("soft"),
    track: of("line"),
    fast: of("fast"),
    failed: of("failed"),
    focus: of("focus"),
  };
}

function useMedia(query: string): boolean {
  const [matches, setMatches] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const media = matchMedia(query);
    const changed = () => setMatches(media.matches);
    media.addEventListener("change", changed);
    return () => media.removeEventListener("change", changed);
  }, [query]);
  return matches;
}

export function useColours(): Colours {
  const dark = useMedia("(prefers-color-scheme: dark)");
  const [colours, setColours] = useState(readColours);
  useEffect(() => setColours(readColours()), [dark]);
  return colours;
}
