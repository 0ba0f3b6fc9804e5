"""FCMA's mixed plan, carried out by Karpenter: NodeClaims with fixed instance classes."""
