/** What all panels are made of. */

import type { ComponentChildren } from "preact";
import { plural, timeOfDay } from "../format";
import type { Pod } from "../model";
import { hrefTo } from "../route";
import { phaseOf } from "../words";

/** More than that is in the table. */
const PODS_SHOWN = 100;

/** A fact that is null is left out. */
export function Facts({ facts }: { facts: [string, ComponentChildren | null][] }) {
  return (
    <dl class="facts-list">
      {facts.map(([what, value]) =>
        value === null ? null : (
          <div key={what}>
            <dt>{what}</dt>
            <dd>{value}</dd>
          </div>
        ),
      )}
    </dl>
  );
}

export function Sentences({ title, sentences }: { title?: string; sentences: readonly string[] }) {
  if (sentences.length === 0) return null;
  return (
    <>
      {title !== undefined && <h3>{title}</h3>}
      <ul class="sentences">
        {sentences.map((sentence, index) => (
          <li key={index}>
            <bdi>{sentence}</bdi>
          </li>
        ))}
      </ul>
    </>
  );
}

export function Timeline({ entries }: { entries: readonly { at: string; sentence: string }[] }) {
  return (
    <ol class="timeline">
      {entries.map((entry, index) => (
        <li key={index}>
          <time dateTime={entry.at}>{timeOfDay(entry.at)}</time> <bdi>{entry.sentence}</bdi>
        </li>
      ))}
    </ol>
  );
}

export function PodList({ pods }: { pods: readonly Pod[] }) {
  const more = pods.length - PODS_SHOWN;
  return (
    <ul class="pods">
      {pods.slice(0, PODS_SHOWN).map((pod) => (
        <li key={pod.key}>
          <a href={hrefTo("pod", pod.key)}>
            <i class={`dot ${pod.phase}`} aria-hidden="true" />
            <bdi class="name">{pod.key}</bdi>
            <span class="soft">{phaseOf(pod)}</span>
          </a>
        </li>
      ))}
      {more > 0 && <li class="more">and {plural(more, "other")}</li>}
    </ul>
  );
}
