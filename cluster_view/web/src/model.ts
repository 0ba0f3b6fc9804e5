/**
 * What the server sends: `state` is a Snapshot, `change` a Change. cluster_view/model.py has the other side.
 *
 * null is unknown, never zero. Times are ISO 8601 in UTC. Every text may come from a tenant.
 */

export interface Head {
  nodes: number;
  pods: number;
  usd_per_hour: number | null;
  requests_per_s: number | null;
  cold_starts_last_minute: number | null;
}

export interface Room {
  allocatable: number;
  requested: number;
}

export interface Node {
  name: string;
  ready: boolean;
  schedulable: boolean;
  instance_type: string | null;
  zone: string | null;
  usd_per_hour: number | null;
  /** To create one container there, alone. */
  creation_s: number | null;
  /** 2 is twice as fast as the median node. */
  relative_speed: number | null;
  speed_age_s: number | null;
  /** Cores. */
  cpu: Room;
  /** Bytes. */
  memory: Room;
  pods: number;
  creating: number;
  rented_by: string | null;
  why: string[];
}

export type Phase = "Pending" | "Creating" | "Ready" | "Terminating" | "Failed";

export interface Pod {
  /** namespace/name */
  key: string;
  node: string | null;
  phase: Phase;
  cpu: number;
  memory: number;
  /** Key of its function. */
  function: string | null;
  created_at: string;
  ready_after_s: number | null;
  why: string[];
}

export interface Size {
  cpu: number;
  memory: number;
  count: number;
}

export interface Condition {
  type: string;
  status: string;
  reason: string;
  message: string;
}

export interface CurvePoint {
  replicas: number;
  score: number;
}

export interface Fn {
  /** Kind/namespace/name */
  key: string;
  kind: string;
  namespace: string;
  name: string;
  mode: string;
  replicas: { ready: number | null; desired: number | null };
  sizes: Size[];
  knee: number | null;
  /** In force for all containers together. */
  limits: { cpu: number; memory: number } | null;
  /** Requests in flight. */
  tracks: { regular: number; emergency: number } | null;
  conditions: Condition[];
  curve: CurvePoint[] | null;
  decisions: { at: string; sentence: string }[];
}

/** What a shadow decision would have changed: below 0 is faster or cheaper. */
export interface WouldDiffer {
  seconds: number | null;
  usd_per_hour: number | null;
}

export interface Decision {
  at: string;
  part: string;
  object: { kind: string; namespace: string; name: string };
  mode: string;
  sentence: string;
  would_differ: WouldDiffer | null;
}

export interface Snapshot {
  at: string;
  cluster: string;
  head: Head;
  nodes: Record<string, Node>;
  pods: Record<string, Pod>;
  functions: Record<string, Fn>;
  /** Newest first. */
  decisions: Decision[];
}

export interface Change {
  at: string;
  head: Head;
  nodes: Record<string, Node | null>;
  pods: Record<string, Pod | null>;
  functions: Record<string, Fn | null>;
  decisions: Decision[];
}

export interface ExplainedNode {
  name: string;
  rank: number;
  score: number;
  /** Seconds. */
  cost: number;
  terms: Record<string, number>;
  lost_by: number;
}

export interface Explanation {
  decided_at: string;
  mode: string;
  reasons: string[];
  /** Best first. */
  nodes: ExplainedNode[];
}
