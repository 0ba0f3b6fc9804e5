"""Pods that a ComboFunc or an InPlaceDeployment owns: what to do next with each. Level-based.

Everything known of a function is in its pods: what is planned for a pod stands in its marks (`marks`), what
it is to become in its own spec. So a step that was lost is found missing, one done twice does no harm, and
whoever leads next goes on from what there is.
"""
