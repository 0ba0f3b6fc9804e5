// node_modules/preact/dist/preact.mjs
var n;
var t$1;
var u$2;
var i$1;
var f$2;
var o$2;
var e$1;
var l$1;
var c$1;
var a$2;
var h$1 = Symbol.for("pv");
var p$1 = {};
var y$1 = [];
var v$1 = /^m(i|n|o|s|text|space)$/;
var w$1 = Array.isArray;
var d$1 = y$1.slice;
var _$1 = Object.assign;
function g$1(n) {
	n && n.parentNode && n.remove();
}
function m$1(r, u, i, f, o) {
	var e = {
		type: r,
		props: u,
		key: i,
		ref: f,
		__k: null,
		__: null,
		__b: 0,
		__e: null,
		__c: null,
		constructor: h$1,
		__v: o || ++t$1,
		__i: -1,
		__u: 0
	};
	return !o && n.vnode && n.vnode(e), e;
}
function $(n) {
	return n.children;
}
function x(n, t) {
	this.props = n, this.context = t, this.__g = 0;
}
function S(n, t) {
	if (null == t) return n.__ && S(n.__, n.__i + 1);
	for (var r; t < n.__k.length; t++) if ((r = n.__k[t]) && r.__e) return r.__e;
	return "function" != typeof n.type || n.props.__P ? null : S(n);
}
function C$1(t) {
	var r, u = t.__v, i = u.__e, f = [], o = [], e = t.__P;
	e && ((r = _$1({ constructor: h$1 }, u)).__v = u.__v + 1, n.vnode && n.vnode(r), z$1(e, r, u, t.__n, e.namespaceURI, 32 & u.__u ? [i] : null, f, i || S(u), 32 & u.__u, o), r.__v = u.__v, r.__.__k[r.__i] = r, E$1(f, r, o), u.__ = u.__e = null, r.__e != i && j(r));
}
function j(n) {
	if ((n = n.__) && n.__c && !n.props.__P) return n.__e = null, n.__k.some(function(t) {
		return t && (n.__e = t.__e);
	}), j(n);
}
function L(t) {
	(8 & t.__g || (t.__g |= 8, u$2.push(t), f$2++)) && i$1 == n.debounceRendering || ((i$1 = n.debounceRendering) || queueMicrotask)(H);
}
function H() {
	try {
		for (var n, t = 1; u$2.length;) u$2.length > t && u$2.sort(o$2), n = u$2.shift(), t = u$2.length, 8 & n.__g && C$1(n);
	} finally {
		(f$2 = u$2.length) && (i$1 || queueMicrotask)(H);
	}
}
function I(n, t, r, u, i, f, o, e, l, c, a) {
	var s, h, v, w, d, _, g = u.__k || y$1, k = t.length;
	for (l = q(r, t, g, l, k), s = 0; s < k; s++) null != (v = r.__k[s]) && (h = ~v.__i && g[v.__i] || p$1, v.__i = s, _ = z$1(n, v, h, i, f, o, e, l, c, a), w = v.__e, (h.ref != v.ref || 8 & h.__u) && (h.ref && G$1(h.ref, null, v, h), v.ref && a.push(v.ref, v.__c || w, v)), d = d || w, 4 & v.__u ? (l = A$1(v, l, n, !h.__v), h.__e && (h.__e = null)) : "function" == typeof v.type && void 0 !== _ ? l = _ : w && (l = w.nextSibling), v.__u &= -21);
	return r.__e = d, l;
}
function q(n, t, r, u, i) {
	var f, o, e, l, c, a, s, p, y, v = r.length, d = v, _ = 0, g = 0, k = n.__k = Array(i);
	for (f = 0; f < i; f++) null != (o = t[f]) && "boolean" != typeof o && "function" != typeof o ? ("object" != typeof o || o.constructor === String ? o = k[f] = m$1(null, o) : w$1(o) ? o = k[f] = m$1($, { children: o }) : o.constructor === h$1 && o.__b ? o = k[f] = m$1(o.type, o.props, o.key, o.ref, o.__v) : k[f] = o, l = f + _, o.__ = n, o.__b = n.__b + 1, e = null, ~(c = o.__i = P(o, r, l, d)) && (d--, (e = r[c]) && (e.__u |= 2)), e && e.__v ? (o.__u |= 16, c == l - 1 ? _-- : c == l + 1 ? _++ : c != l && (c > l ? _-- : _++, g = 1)) : (~c || (i > v ? _-- : i < v && _++), "function" != typeof o.type && (o.__u |= 4))) : k[f] = null;
	if (g) {
		for (a = [], s = [], f = 0; f < i; f++) if ((o = k[f]) && 16 & o.__u) {
			for (_ = 0, p = a.length; _ < p;) a[y = _ + p >> 1] < o.__i ? _ = y + 1 : p = y;
			a[_] = o.__i, s[f] = _ + 1;
		}
		for (_ = a.length; f--;) s[f] && (s[f] == _ ? _-- : k[f].__u |= 4);
	}
	if (d) for (f = 0; f < v; f++) !(e = r[f]) || 2 & e.__u || (e.__e == u && (u = S(e)), J(e, e));
	return u;
}
function A$1(n, t, r, u) {
	var i, f, o, e;
	if ("function" == typeof n.type) {
		if (n.props.__P) return t;
		if (i = n.__k) for (f = 0; f < i.length; f++) i[f] && (i[f].__ = n, t = A$1(i[f], t, r, !1));
		return t;
	}
	for (t && !t.parentNode && (t = S(n)) && !t.parentNode && (t = null), o = n.__e, e = t; e && 8 == e.nodeType;) e = e.nextSibling;
	for (o != e && (!u && r.moveBefore && o.parentNode ? r.moveBefore(o, t) : r.insertBefore(o, t || null)), t = o; (t = t && t.nextSibling) && 8 == t.nodeType && !t.data.startsWith("$s"););
	return t;
}
function P(n, t, r, u) {
	var i, f = n.key, o = n.type, e = t[r], l = e && !(2 & e.__u);
	if (null === e && null == f || l && f == e.key && o == e.type) return r;
	if (u > (l ? 1 : 0)) {
		for (i = r - 1; i >= 0; i--) if ((e = t[i]) && !(2 & e.__u) && f == e.key && o == e.type) return i;
		for (i = r + 1; i < t.length; i++) if ((e = t[i]) && !(2 & e.__u) && f == e.key && o == e.type) return i;
	}
	return -1;
}
function T$1(n, t, r) {
	r ??= "", "-" == t[0] ? n.setProperty(t, r) : n[t] = r;
}
function N(n, t, r, u, i) {
	var f, o;
	if ("style" == t) if ("string" == typeof r) n.style.cssText = r;
	else {
		if ("string" == typeof u && (n.style.cssText = u = ""), u) for (t in u) r && t in r || T$1(n.style, t);
		if (r) for (t in r) u && r[t] == u[t] || T$1(n.style, t, r[t]);
	}
	else if ("o" == t[0] && "n" == t[1]) "function" != typeof r && (r = null), "function" != typeof u && (u = null), (n.__e || (n.__e = {}))[t] = r, r && u || (o = a$2[t] || (a$2[t] = V(t)), (n.__a || (n.__a = {}))[t] = c$1, f = t != (t = t.replace(l$1, "$1")), (t = t.slice(2))[0] < "a" && (t = t.toLowerCase()), r ? n.addEventListener(t, o, f) : n.removeEventListener(t, o, f));
	else {
		if ("http://www.w3.org/2000/svg" == i) t = t.replace(/xlink(H|:h)/, "h").replace(/sName$/, "s");
		else if ("width" != t && "height" != t && "href" != t && "list" != t && "form" != t && "tabIndex" != t && "download" != t && "rowSpan" != t && "colSpan" != t && "role" != t && "popover" != t && t in n) try {
			n[t] = null == r ? "" : r;
			return;
		} catch (n) {}
		if ("function" == typeof r) return;
		null == r || !1 === r && "-" != t[4] ? n.removeAttribute(t) : n.setAttribute(t, "popover" == t && 1 == r ? "" : r);
	}
}
function V(t) {
	return function(r) {
		var u = this.__e;
		if (u) {
			if (u = u[t], null == r[e$1]) r[e$1] = c$1++;
			else if (r[e$1] < this.__a[t]) return;
			return u(n.event ? n.event(r) : r);
		}
	};
}
function z$1(t, r, u, i, f, o, e, l, c, a) {
	var s, p, v, d, k, b, m, M, C, j, L, H, q, A, O, P, T, N, V = r.type;
	if (r.constructor !== h$1) return null;
	128 & u.__u && (c = 32 & u.__u, s = u.__c.__z) && (r.__u |= c, p = o = [], 8 == s.nodeType ? l = B$1(s, o) : o.push(s), l = o[0] || l), (s = n.__b) && s(r);
	n: if ("function" == typeof V) {
		v = e.length;
		try {
			if (M = r.props, C = (s = V.prototype) && s.render, j = (s = V.contextType) && i[s.__c], L = s ? j ? j.props.value : s.__ : i, (d = u.__c) ? (r.__c = d, 2 & d.__g && (d.__g |= 1)) : (C ? r.__c = d = new V(M, L) : (r.__c = d = new x(M, L), d.constructor = V, d.render = K), j && j.sub(d), d.state || (d.state = {}), d.__n = i, d.__g |= 8, d.__h = [], d.__k = []), C && (d.__s || (d.__s = d.state), V.getDerivedStateFromProps && (d.__s == d.state && (d.__s = _$1({}, d.__s)), _$1(d.__s, V.getDerivedStateFromProps(M, d.__s)))), k = d.props, b = d.state, d.__v = r, u.__c) {
				if (M !== k && C && !V.getDerivedStateFromProps && d.componentWillReceiveProps && d.componentWillReceiveProps(M, L), r.__v == u.__v && !(8 & d.__g) || !(4 & d.__g) && d.shouldComponentUpdate && !1 === d.shouldComponentUpdate(M, d.__s, L)) {
					r.__v != u.__v && (d.props = M, d.state = d.__s, d.__g &= -9), r.__e = u.__e, r.__k = u.__k, r.__k.some(function(n) {
						n && (n.__ = r);
					}), y$1.push.apply(d.__h, d.__k), d.__k = [], d.__h.length && e.push(d), l = S(u);
					break n;
				}
				d.componentWillUpdate && d.componentWillUpdate(M, d.__s, L), C && d.componentDidUpdate && d.__h.push(function() {
					d.componentDidUpdate(k, b, m);
				});
			} else C && !V.getDerivedStateFromProps && d.componentWillMount && d.componentWillMount(), C && d.componentDidMount && d.__h.push(d.componentDidMount);
			d.context = L, d.props = M, d.__P = t, d.__g &= -5, H = n.__r, q = C ? 25 : 0;
			do
				d.__g &= -9, H && H(r), s = d.render(d.props, d.state = d.__s, d.context);
			while (8 & d.__g && ++q < 25);
			C && (y$1.push.apply(d.__h, d.__k), d.__k = []), d.state = d.__s, d.getChildContext && (i = _$1({}, i, d.getChildContext())), C && u.__c && d.getSnapshotBeforeUpdate && (m = d.getSnapshotBeforeUpdate(k, b)), A = s && s.type === $ && null == s.key ? s.props.children : s, M.__P && (s = l, f = (t = M.__P).namespaceURI, c = o = null, u.props && u.props.__P != t && (u.__k.some(function(n) {
				n && J(n, n);
			}), u.__k = null), l = u.__k ? S(u, 0) : null), l = I(t, w$1(A) ? A : [A], r, u, i, f, o, e, l, c, a), M.__P && (r.__e = null, l = s), r.__u &= -161, p && p.some(g$1), d.__h.length && e.push(d), 1 & d.__g && (d.__g &= -4);
		} catch (t) {
			if (e.length = v, r.__v = null, c || o) if (t && t.then) {
				if (r.__u |= 128 | c, o) {
					for (~(T = o.indexOf(l || void 0)) || (T = o.length); (N = o[T - 1]) && 8 == N.nodeType;) T--;
					for (; T < o.length; T++) if (N = o[T]) if (o[T] = null, O) {
						if (N == P) break;
					} else {
						if (8 != N.nodeType) break;
						N.data.startsWith("$s") && (P = B$1(O = N));
					}
				}
				if (!O) {
					for (; l && 8 == l.nodeType && l.nextSibling;) l = l.nextSibling;
					O = l;
				}
				(s = B$1(O = r.__c.__z || (r.__c.__z = O))) ? (r.__e = O, l = s) : r.__e = l, l = l && l.nextSibling;
			} else o && o.some(g$1);
			else r.__e = u.__e;
			r.__k || (r.__k = u.__k || []), t && t.then || D$1(r), n.__e(t, r, u);
		}
	} else l = r.__e = F$1(u.__e, r, u, i, f, o, e, c, a, t);
	return (s = n.diffed) && s(r), l;
}
function B$1(n, t) {
	if (n && 8 == n.nodeType && n.data.startsWith("$s")) for (var r = 1; n = n.nextSibling;) {
		if (8 == n.nodeType) {
			if (n.data.startsWith("$s")) r++;
			else if (n.data.startsWith("/$s") && !--r) return n;
		}
		t && t.push(n);
	}
}
function D$1(n) {
	n && (n.__c && (n.__c.__g |= 4), n.__k && n.__k.some(D$1));
}
function E$1(t, r, u) {
	for (var i = 0; i < u.length;) G$1(u[i++], u[i++], u[i++]);
	n.__c && n.__c(r, t), t.some(function(r) {
		try {
			t = r.__h, r.__h = [], t.some(function(n) {
				n.call(r);
			});
		} catch (t) {
			n.__e(t, r.__v);
		}
	});
}
function F$1(t, r, u, i, f, o, e, l, c, a) {
	var s, h, y, _, k, b, m, M, $ = u.props || p$1, x = r.props, C = r.type;
	if ("svg" == C ? f = "http://www.w3.org/2000/svg" : "math" == C ? f = "http://www.w3.org/1998/Math/MathML" : f || (f = "http://www.w3.org/1999/xhtml"), o) {
		for (s = 0; s < o.length; s++) if ((k = o[s]) && (C ? k.localName == C : 3 == k.nodeType)) {
			t = k, o[s] = null;
			break;
		}
	}
	if (!t) {
		if (M = a.ownerDocument || document, !C) return M.createTextNode(x);
		t = M.createElementNS(f, C, x.is ? x : a), l && (n.__m && n.__m(r, o), l = !1), o = null;
	}
	if (C) {
		if (a = "template" == C && t.content || t, o = "textarea" == C && null != x.defaultValue ? null : o && d$1.call(a.childNodes), !l && o) for ($ = {}, s = 0; s < t.attributes.length; s++) $[(k = t.attributes[s]).name] = k.value;
		for (s in $) k = $[s], "dangerouslySetInnerHTML" == s ? y = k : "children" == s || s in x || "value" == s && "defaultValue" in x || "checked" == s && "defaultChecked" in x || N(t, s, null, k, f);
		for (s in x) k = x[s], "children" == s ? _ = k : "dangerouslySetInnerHTML" == s ? h = k : "value" == s ? b = k : "checked" == s ? m = k : l && "function" != typeof k || $[s] === k || N(t, s, k, $[s], f);
		h ? (l || y && (h.__html == y.__html || h.__html == t.innerHTML) || (t.innerHTML = h.__html), r.__k = []) : (y && (t.textContent = ""), ("foreignObject" == C || "http://www.w3.org/1998/Math/MathML" == f && v$1.test(C)) && (f = "http://www.w3.org/1999/xhtml"), I(a, w$1(_) ? _ : [_], r, u, i, f, o, e, o ? o[0] : u.__k && S(u, 0), l, c), o && o.some(g$1)), l && "textarea" != C || (s = "value", "progress" == C && null == b ? t.removeAttribute(s) : null == b || b === t[s] && ("progress" != C || b) || N(t, s, b, $[s], f), s = "checked", null != m && m != t[s] && N(t, s, m, $[s], f));
	} else $ === x || l && t.data == x || (t.data = x);
	return t;
}
function G$1(t, r, u, i) {
	try {
		"function" == typeof t ? r ? r.__x = t(r) || 1 : i && (i = i.__c || i.__e) && (r = i.__x) && (i.__x = null, "function" == typeof r ? r() : t(null)) : t.current = r;
	} catch (t) {
		n.__e(t, u);
	}
}
function J(t, r, u) {
	var i, f, o, e;
	if (n.unmount && n.unmount(t), !(i = t.ref) || i.current && i.current != t.__e || G$1(i, null, r, t), i = t.__c) {
		if (i.componentWillUnmount) try {
			i.componentWillUnmount();
		} catch (t) {
			n.__e(t, r);
		}
		i.__P = i.__n = null;
	}
	if (i = t.__k) for (e = 0; e < i.length; e++) i[e] && J(i[e], r, "function" != typeof t.type || u && !t.props.__P);
	!u && (i = t.__c) && (i = i.__z) && (f = B$1(i, o = [])) && (i == t.__e && o.some(g$1), g$1(f), g$1(i)), u || g$1(t.__e), t.__e = t.__c = t.__ = null;
}
function K(n, t, r) {
	return this.constructor(n, r);
}
function Q(t, r) {
	var u, i, f, o;
	n.__ && n.__(t, r), 9 == r.nodeType && (r = r.documentElement), i = (u = t && 32 & t.__u) ? null : r.__k, r.__k = m$1($, { children: [t] }), f = [], o = [], z$1(r, r.__k, i || p$1, p$1, r.namespaceURI, i ? null : r.firstChild ? d$1.call(r.childNodes) : null, f, i ? i.__e : r.firstChild, u, o), E$1(f, r.__k, o), r.__k.props.children = null;
}
n = { __e: function(n, t, r, u) {
	for (var i, o, e; t = t.__;) if ((i = t.__c) && !(1 & i.__g)) {
		i.__g |= 4;
		try {
			if ((e = (o = i.constructor) && o.getDerivedStateFromError) && i.setState(o.getDerivedStateFromError(n)), i.componentDidCatch && (i.componentDidCatch(n, u || {}), e = 1), e && 8 & i.__g) return void (i.__g |= 2);
		} catch (t) {
			n = t;
		}
	}
	throw f$2 = 0, n;
} }, t$1 = 0, x.prototype.setState = function(n, t) {
	var r = this.__s;
	r && r != this.state || (r = this.__s = _$1({}, this.state)), "function" == typeof n && (n = n(_$1({}, r), this.props)), n && (_$1(r, n), this.__v && (t && this.__k.push(t), L(this)));
}, x.prototype.forceUpdate = function(n) {
	this.__v && (this.__g |= 4, n && this.__h.push(n), L(this));
}, x.prototype.render = $, u$2 = [], f$2 = 0, o$2 = function(n, t) {
	return n.__v.__b - t.__v.__b;
}, e$1 = Symbol(), l$1 = /(PointerCapture)$|Capture$/i, c$1 = 0, a$2 = {};
// node_modules/preact/hooks/dist/hooks.mjs
var t;
var r;
var u$1;
var i;
var o$1 = Object.is;
var f$1 = 0;
var c = [];
var e = [];
var a$1 = n;
var v = a$1.__b;
var l = a$1.__r;
var m = a$1.diffed;
var h = a$1.__c;
var s = a$1.unmount;
var p = a$1.__;
function y(n, t) {
	a$1.__h && a$1.__h(r, n, f$1 || t), f$1 = 0;
	var u = r.__H || (r.__H = {
		__: [],
		__h: []
	});
	return n >= u.__.length && u.__.push({}), u.__[n];
}
function d(n) {
	return f$1 = 1, _(G, n);
}
function _(n, u, i) {
	var f = y(t++, 2);
	if (f.t = n, !f.__c && (f.__ = [i ? i(u) : G(void 0, u), function(n) {
		var t = (f.__N || f.__)[0], r = f.t(t, n);
		o$1(t, r) || (f.__N = [r, f.__[1]], f.__c.setState({}));
	}], f.__c = r, !r.__f)) {
		r.__f = !0;
		var c = r.shouldComponentUpdate;
		r.shouldComponentUpdate = function(n, t, r) {
			var u = this.__H;
			if (!u) return !0;
			var i = !1, f = this.props != n;
			if (u.__.some(function(n) {
				n.__N && (i = !0, o$1(n.__[0], n.__N[0]) || (f = !0));
			}), c) {
				var e = c.call(this, n, t, r);
				return i ? e || f : e;
			}
			return !i || f;
		};
	}
	return f.__;
}
function A(n, u) {
	var i = y(t++, 3);
	!a$1.__s && E(i.__H, u) && (i.__P = !0, i.__ = n, i.u = u, r.__H.__h.push(i));
}
function F(n, u) {
	var i = y(t++, 4);
	!a$1.__s && E(i.__H, u) && (i.__P = !1, i.__ = n, i.u = u, r.__h.push(i));
}
function T(n) {
	return f$1 = 5, w(function() {
		return { current: n };
	}, []);
}
function w(n, r) {
	var u = y(t++, 7);
	return E(u.__H, r) && (u.__ = n(), u.__H = r), u.__;
}
function g() {
	var n;
	do {
		for (; n = e.shift();) try {
			C(n);
		} catch (t) {
			a$1.__e(t, { __: (n = n.__P) && n.__v });
		}
		for (; n = c.shift();) {
			var t = n.__H;
			if (n.__P && t) try {
				t.__h.some(C), t.__h.some(D), t.__h = [];
			} catch (r) {
				t.__h = [], a$1.__e(r, n.__v);
			}
		}
	} while (e.length);
}
a$1.__b = function(n) {
	r = null, v && v(n);
}, a$1.__ = function(n, t) {
	n && t.__k && t.__k.__m && (n.__m = t.__k.__m), p && p(n, t);
}, a$1.__r = function(n) {
	l && l(n), t = 0;
	var i = (r = n.__c).__H;
	i && (u$1 == r ? r.__h = [] : (i.__h.some(C), i.__h.some(D), t = 0), i.__h = [], i.__.some(function(n) {
		n.__N && (n.__ = n.__N), n.u = n.__N = void 0;
	})), u$1 = r;
}, a$1.diffed = function(n) {
	m && m(n);
	var t = n.__c;
	t && t.__H && (t.__H.__h.length && B(c.push(t)), t.__H.__.some(function(n) {
		n.u && (n.__H = n.u);
	})), u$1 = r = null;
}, a$1.__c = function(n, t) {
	t.some(function(n) {
		try {
			n.__h.some(C), n.__h = n.__h.filter(function(n) {
				return !n.__ || D(n);
			});
		} catch (t) {
			n.__h = [function() {
				throw t;
			}];
		}
	}), h && h(n, t);
}, a$1.unmount = function(n) {
	s && s(n);
	var t, r, u = n.__c;
	u && u.__H && (u.__H.__.some(function(u) {
		try {
			if (u.__P && u.__c) {
				if (void 0 === r) {
					for (r = n.__; r && (!r.__c || !r.__c.__P);) r = r.__;
					r = r && r.__c;
				}
				u.__P = r, B(e.push(u));
			} else C(u);
		} catch (n) {
			t = n;
		}
	}), u.__H = void 0, t && a$1.__e(t, u.__v));
};
var k = "function" == typeof requestAnimationFrame;
function z(n) {
	var t, r = function() {
		clearTimeout(u), k && cancelAnimationFrame(t), setTimeout(n);
	}, u = setTimeout(r, 35);
	k && (t = requestAnimationFrame(r));
}
function B(n) {
	1 != n && i == a$1.requestAnimationFrame || ((i = a$1.requestAnimationFrame) || z)(g);
}
function C(n) {
	var t = r, u = n.__c;
	"function" == typeof u && (n.__c = void 0, u()), r = t;
}
function D(n) {
	var t = r;
	n.__c = n.__(), r = t;
}
function E(n, t) {
	return !n || n.length != t.length || t.some(function(t, r) {
		return !o$1(t, n[r]);
	});
}
function G(n, t) {
	return "function" == typeof t ? t(n) : t;
}
// src/format.ts
/** Numbers as people read them. */
var whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
var short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
var tenths = new Intl.NumberFormat("en", {
	minimumFractionDigits: 1,
	maximumFractionDigits: 1
});
var cents = new Intl.NumberFormat("en", {
	minimumFractionDigits: 2,
	maximumFractionDigits: 2
});
var clock = new Intl.DateTimeFormat("en-GB", {
	hour: "2-digit",
	minute: "2-digit",
	second: "2-digit"
});
var UNKNOWN = "unknown";
function count(value) {
	return whole.format(value);
}
function number(value) {
	return Math.abs(value) >= 1e3 ? whole.format(value) : short.format(value);
}
function cores(value) {
	return `${number(value)} ${value === 1 ? "core" : "cores"}`;
}
function bytes(value) {
	const mib = value / 2 ** 20;
	return mib >= 1024 ? `${number(mib / 1024)} GiB` : `${number(mib)} MiB`;
}
/** Sub-cent prices keep their digits. */
function dollars(value) {
	const size = Math.abs(value);
	return `${value < 0 ? "−" : ""}$${size >= 1 || size === 0 ? cents.format(size) : short.format(size)}`;
}
function seconds(value) {
	const size = Math.abs(value);
	if (size < 1) return `${number(value * 1e3)} ms`;
	if (size < 120) return `${number(value)} s`;
	return size < 7200 ? `${number(value / 60)} min` : `${number(value / 3600)} h`;
}
/** While it grows: its digits stay where they are. */
function elapsed(value) {
	return value < 120 ? `${tenths.format(value)} s` : seconds(value);
}
function timeOfDay(at) {
	const time = new Date(at);
	return Number.isNaN(time.getTime()) ? UNKNOWN : clock.format(time);
}
function secondsBetween(from, to) {
	return Math.max(0, (Date.parse(to) - Date.parse(from)) / 1e3);
}
function plural(n, one, many = `${one}s`) {
	return `${count(n)} ${n === 1 ? one : many}`;
}
// src/route.ts
/** What is looked at stands in the URL, so that it can be shared, and the browser's Back works. */
var KINDS = [
	"node",
	"pod",
	"function"
];
var TABLES = [
	"nodes",
	"pods",
	"functions"
];
function readRoute(hash) {
	const parameters = new URLSearchParams(hash.replace(/^#/, ""));
	const table = TABLES.find((name) => name === parameters.get("table")) ?? null;
	for (const kind of KINDS) {
		const key = parameters.get(kind);
		if (key !== null) return {
			table,
			selected: {
				kind,
				key
			}
		};
	}
	return {
		table,
		selected: null
	};
}
function href(route) {
	const parameters = new URLSearchParams();
	if (route.table !== null) parameters.set("table", route.table);
	if (route.selected !== null) parameters.set(route.selected.kind, route.selected.key);
	return `#${parameters}`;
}
/** Keeps the view, changes what is selected. */
function hrefTo(kind, key) {
	return href({
		...readRoute(location.hash),
		selected: {
			kind,
			key
		}
	});
}
function go(route) {
	location.hash = href(route);
}
function useRoute() {
	const [route, setRoute] = d(() => readRoute(location.hash));
	A(() => {
		const changed = () => setRoute(readRoute(location.hash));
		addEventListener("hashchange", changed);
		return () => removeEventListener("hashchange", changed);
	}, []);
	return route;
}
// src/words.ts
/** Rows of the cluster, said in a sentence: for tooltips and for screen readers. */
function free(room) {
	return Math.max(0, room.allocatable - room.requested);
}
function freeOf(node) {
	return `${cores(free(node.cpu))} and ${bytes(free(node.memory))} free`;
}
function speedOf(node) {
	return node.relative_speed === null ? "speed unknown" : `${number(node.relative_speed)}× the median speed`;
}
function priceOf(node) {
	return node.usd_per_hour === null ? "price unknown" : `${dollars(node.usd_per_hour)} an hour`;
}
function stateOf(node) {
	if (!node.ready) return "not ready";
	return node.schedulable ? "ready" : "takes no new pods";
}
function nodeInWords(node) {
	const creating = node.creating > 0 ? `, ${number(node.creating)} being created` : "";
	const parts = [
		`${plural(node.pods, "pod")}${creating}`,
		freeOf(node),
		speedOf(node),
		priceOf(node)
	];
	return `${stateOf(node) === "ready" ? "" : `${stateOf(node)}; `}${parts.join("; ")}`;
}
function phaseOf(pod) {
	const words = {
		Pending: "waits for a node",
		Creating: "being created",
		Terminating: "ends",
		Failed: "failed"
	};
	if (pod.phase !== "Ready") return words[pod.phase] ?? pod.phase;
	return pod.ready_after_s === null ? "Ready" : `Ready after ${seconds(pod.ready_after_s)}`;
}
function replicasOf(fn) {
	const { ready, desired } = fn.replicas;
	return `${ready ?? "unknown"} of ${desired ?? "unknown"} ready`;
}
function nameOf(key) {
	return key.slice(key.lastIndexOf("/") + 1);
}
/** null: nothing to compare with. */
function differenceInWords(difference) {
	const { seconds: s, usd_per_hour: usd } = difference;
	const parts = [];
	if (s !== null && s !== 0) parts.push(`${seconds(Math.abs(s))} ${s < 0 ? "sooner" : "later"}`);
	if (usd !== null && usd !== 0) parts.push(`${dollars(Math.abs(usd))} an hour ${usd < 0 ? "cheaper" : "dearer"}`);
	if (parts.length > 0) return parts.join(", ");
	return s === null && usd === null ? null : "the same";
}
// node_modules/preact/jsx-runtime/dist/jsxRuntime.mjs
var f = Symbol.for("pv");
var o = 0;
Array.isArray;
function a(t, e, n$1, u, a, i) {
	e || (e = {});
	var c, l, p = e;
	if ("ref" in p && "function" != typeof t) for (l in p = {}, e) "ref" == l ? c = e[l] : p[l] = e[l];
	var s = {
		type: t,
		props: p,
		key: n$1,
		ref: c,
		__k: null,
		__: null,
		__b: 0,
		__e: null,
		__c: null,
		constructor: f,
		__v: --o,
		__i: -1,
		__u: 0
	};
	return (a || i) && (s.__source = a, s.__self = i), n.vnode && n.vnode(s), s;
}
// src/Functions.tsx
/** More than that is in the table. */
var SHOWN$1 = 60;
function Functions({ functions }) {
	const sorted = [...functions.values()].sort((a, b) => a.key.localeCompare(b.key));
	const more = sorted.length - SHOWN$1;
	return /* @__PURE__ */ a("section", {
		"aria-labelledby": "functions-title",
		children: [
			/* @__PURE__ */ a("h2", {
				id: "functions-title",
				children: ["Functions ", /* @__PURE__ */ a("small", { children: sorted.length === 0 ? "none" : plural(sorted.length, "function") })]
			}),
			/* @__PURE__ */ a("ul", {
				class: "functions",
				children: sorted.slice(0, SHOWN$1).map((fn) => /* @__PURE__ */ a(Card, { fn }, fn.key))
			}),
			more > 0 && /* @__PURE__ */ a("p", {
				class: "soft",
				children: [
					"and ",
					plural(more, "other"),
					", in the table"
				]
			})
		]
	});
}
function Card({ fn }) {
	const { ready, desired } = fn.replicas;
	const most = Math.max(desired ?? 0, ready ?? 0, 1);
	return /* @__PURE__ */ a("li", { children: /* @__PURE__ */ a("a", {
		class: "card",
		href: hrefTo("function", fn.key),
		children: [
			/* @__PURE__ */ a("span", {
				class: "card-title",
				children: [
					/* @__PURE__ */ a("bdi", {
						class: "name",
						children: fn.name
					}),
					" ",
					/* @__PURE__ */ a(Mode, { mode: fn.mode })
				]
			}),
			/* @__PURE__ */ a("span", {
				class: "soft",
				children: [
					fn.kind,
					" in ",
					/* @__PURE__ */ a("bdi", { children: fn.namespace })
				]
			}),
			/* @__PURE__ */ a("span", {
				class: "bar",
				"aria-hidden": "true",
				children: [/* @__PURE__ */ a("i", {
					class: "ready",
					style: { width: `${100 * (ready ?? 0) / most}%` }
				}), fn.knee !== null && fn.knee <= most && /* @__PURE__ */ a("i", {
					class: "knee",
					style: { left: `${100 * fn.knee / most}%` }
				})]
			}),
			/* @__PURE__ */ a("span", {
				class: "facts",
				children: [
					/* @__PURE__ */ a("span", { children: replicasOf(fn) }),
					fn.knee !== null && /* @__PURE__ */ a("span", { children: ["knee at ", fn.knee] }),
					fn.limits !== null && /* @__PURE__ */ a("span", { children: [
						"limits ",
						cores(fn.limits.cpu),
						", ",
						bytes(fn.limits.memory)
					] }),
					fn.tracks !== null && /* @__PURE__ */ a("span", { children: [
						"in flight: ",
						number(fn.tracks.regular),
						" regular, ",
						number(fn.tracks.emergency),
						" emergency"
					] })
				]
			}),
			fn.sizes.length > 0 && /* @__PURE__ */ a(Sizes, { sizes: fn.sizes })
		]
	}) });
}
/** Each size as a shape, as in the nodes: across its CPU, upwards its memory. */
function Sizes({ sizes }) {
	const mostCpu = Math.max(...sizes.map((size) => size.cpu), 1e-9);
	const mostMemory = Math.max(...sizes.map((size) => size.memory), 1);
	return /* @__PURE__ */ a("span", {
		class: "sizes",
		children: sizes.map((size) => /* @__PURE__ */ a("span", {
			class: "size",
			children: [
				/* @__PURE__ */ a("i", {
					"aria-hidden": "true",
					style: {
						width: `${4 + 18 * Math.max(0, size.cpu / mostCpu)}px`,
						height: `${4 + 18 * Math.max(0, size.memory / mostMemory)}px`
					}
				}),
				size.count,
				" × ",
				cores(size.cpu),
				", ",
				bytes(size.memory)
			]
		}, `${size.cpu}/${size.memory}`))
	});
}
function Mode({ mode }) {
	return /* @__PURE__ */ a("span", {
		class: `mode ${mode === "shadow" ? "shadow" : mode === "off" ? "off" : ""}`,
		children: mode
	});
}
// src/Decisions.tsx
/** Decisions as they happen. A shadow decision stands beside what really happened. */
var CHOICES = [
	["all", "all"],
	["enforce", "carried out"],
	["shadow", "in shadow"]
];
function Decisions({ cluster }) {
	const [shown, show] = d("all");
	const decisions = cluster.decisions.filter((decision) => shown === "all" || decision.mode === shown);
	return /* @__PURE__ */ a("section", {
		class: "right",
		"aria-labelledby": "decisions-title",
		children: [
			/* @__PURE__ */ a("div", {
				class: "section-head",
				children: [/* @__PURE__ */ a("h2", {
					id: "decisions-title",
					children: "Decisions"
				}), /* @__PURE__ */ a("div", {
					class: "choice",
					role: "group",
					"aria-label": "Which decisions",
					children: CHOICES.map(([choice, words]) => /* @__PURE__ */ a("button", {
						type: "button",
						"aria-pressed": shown === choice,
						onClick: () => show(choice),
						children: words
					}, choice))
				})]
			}),
			decisions.length === 0 && /* @__PURE__ */ a("p", {
				class: "soft",
				children: "None yet."
			}),
			/* @__PURE__ */ a("ol", {
				class: "feed",
				children: decisions.map((decision) => /* @__PURE__ */ a(Entry, {
					decision,
					cluster
				}, `${decision.at} ${decision.part} ${objectKey(decision)} ${decision.sentence}`))
			})
		]
	});
}
function Entry({ decision, cluster }) {
	const target = targetOf(decision, cluster);
	const difference = decision.would_differ === null ? null : differenceInWords(decision.would_differ);
	return /* @__PURE__ */ a("li", {
		class: decision.mode === "shadow" ? "in-shadow" : void 0,
		children: [
			/* @__PURE__ */ a("div", {
				class: "entry-head",
				children: [
					/* @__PURE__ */ a("time", {
						dateTime: decision.at,
						children: timeOfDay(decision.at)
					}),
					/* @__PURE__ */ a("span", {
						class: "part",
						children: decision.part.replaceAll("_", " ")
					}),
					decision.mode !== "enforce" && /* @__PURE__ */ a(Mode, { mode: decision.mode })
				]
			}),
			/* @__PURE__ */ a("p", { children: /* @__PURE__ */ a("bdi", { children: decision.sentence }) }),
			difference !== null && /* @__PURE__ */ a("p", {
				class: `difference ${betterOrWorse(decision)}`,
				children: difference === "the same" ? "In force, it would have been the same." : /* @__PURE__ */ a($, { children: ["In force: ", difference] })
			}),
			target !== null && /* @__PURE__ */ a("a", {
				class: "object",
				href: target,
				children: /* @__PURE__ */ a("bdi", { children: objectKey(decision) })
			})
		]
	});
}
function objectKey({ object }) {
	return object.namespace === "" ? object.name : `${object.namespace}/${object.name}`;
}
/** null: the object is no longer there, or nothing that has a panel. */
function targetOf(decision, cluster) {
	const { kind, name } = decision.object;
	const key = objectKey(decision);
	if (kind === "Pod" && cluster.pods.has(key)) return hrefTo("pod", key);
	if (kind === "Node" && cluster.nodes.has(name)) return hrefTo("node", name);
	return cluster.functions.has(`${kind}/${key}`) ? hrefTo("function", `${kind}/${key}`) : null;
}
function betterOrWorse({ would_differ: difference }) {
	const sum = [difference?.seconds ?? 0, difference?.usd_per_hour ?? 0];
	if (sum.every((value) => value <= 0) && sum.some((value) => value < 0)) return "better";
	return sum.every((value) => value >= 0) && sum.some((value) => value > 0) ? "worse" : "";
}
// src/detail/Curve.tsx
/** The measured points of a function, by its replicas; the knee where more replicas stop being worth their cost. */
var WIDTH = 380;
var HEIGHT = 170;
var LEFT = 44;
var TOP = 18;
function Curve({ curve, knee, replicas }) {
	const points = [...curve].sort((a, b) => a.replicas - b.replicas);
	const mostReplicas = Math.max(...points.map((point) => point.replicas), knee ?? 0, replicas ?? 0, 1);
	const mostScore = Math.max(...points.map((point) => point.score), 1e-9);
	const x = (value) => LEFT + value / mostReplicas * 324;
	const y = (score) => 140 - Math.max(0, score) / mostScore * 122;
	return /* @__PURE__ */ a("figure", {
		class: "curve",
		children: [/* @__PURE__ */ a("svg", {
			viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
			role: "img",
			"aria-label": `Score by replicas${knee === null ? "" : `, with the knee at ${knee}`}; the same as a table below`,
			children: [
				/* @__PURE__ */ a("line", {
					class: "axis",
					x1: LEFT,
					x2: 368,
					y1: y(0),
					y2: y(0)
				}),
				/* @__PURE__ */ a("text", {
					x: 38,
					y: y(mostScore) + 4,
					"text-anchor": "end",
					children: number(mostScore)
				}),
				/* @__PURE__ */ a("text", {
					x: 38,
					y: y(0) + 4,
					"text-anchor": "end",
					children: "0"
				}),
				/* @__PURE__ */ a("text", {
					x: 368,
					y: 162,
					"text-anchor": "end",
					children: [mostReplicas, " replicas"]
				}),
				replicas !== null && /* @__PURE__ */ a("line", {
					class: "now",
					x1: x(replicas),
					x2: x(replicas),
					y1: TOP,
					y2: y(0)
				}),
				knee !== null && /* @__PURE__ */ a($, { children: [/* @__PURE__ */ a("line", {
					class: "knee",
					x1: x(knee),
					x2: x(knee),
					y1: TOP,
					y2: y(0)
				}), /* @__PURE__ */ a("text", {
					class: "knee",
					x: x(knee),
					y: 12,
					"text-anchor": "middle",
					children: ["knee ", knee]
				})] }),
				/* @__PURE__ */ a("polyline", { points: points.map((point) => `${x(point.replicas)},${y(point.score)}`).join(" ") }),
				points.map((point) => /* @__PURE__ */ a("circle", {
					cx: x(point.replicas),
					cy: y(point.score),
					r: "3.5"
				}, point.replicas))
			]
		}), /* @__PURE__ */ a("details", { children: [/* @__PURE__ */ a("summary", { children: "As a table" }), /* @__PURE__ */ a("table", { children: [/* @__PURE__ */ a("thead", { children: /* @__PURE__ */ a("tr", { children: [/* @__PURE__ */ a("th", {
			scope: "col",
			class: "numeric",
			children: "replicas"
		}), /* @__PURE__ */ a("th", {
			scope: "col",
			class: "numeric",
			children: "score"
		})] }) }), /* @__PURE__ */ a("tbody", { children: points.map((point) => /* @__PURE__ */ a("tr", { children: [/* @__PURE__ */ a("td", {
			class: "numeric",
			children: point.replicas
		}), /* @__PURE__ */ a("td", {
			class: "numeric",
			children: number(point.score)
		})] }, point.replicas)) })] })] })]
	});
}
// src/detail/parts.tsx
/** More than that is in the table. */
var PODS_SHOWN = 100;
/** A fact that is null is left out. */
function Facts({ facts }) {
	return /* @__PURE__ */ a("dl", {
		class: "facts-list",
		children: facts.map(([what, value]) => value === null ? null : /* @__PURE__ */ a("div", { children: [/* @__PURE__ */ a("dt", { children: what }), /* @__PURE__ */ a("dd", { children: value })] }, what))
	});
}
function Sentences({ title, sentences }) {
	if (sentences.length === 0) return null;
	return /* @__PURE__ */ a($, { children: [title !== void 0 && /* @__PURE__ */ a("h3", { children: title }), /* @__PURE__ */ a("ul", {
		class: "sentences",
		children: sentences.map((sentence, index) => /* @__PURE__ */ a("li", { children: /* @__PURE__ */ a("bdi", { children: sentence }) }, index))
	})] });
}
function Timeline({ entries }) {
	return /* @__PURE__ */ a("ol", {
		class: "timeline",
		children: entries.map((entry, index) => /* @__PURE__ */ a("li", { children: [
			/* @__PURE__ */ a("time", {
				dateTime: entry.at,
				children: timeOfDay(entry.at)
			}),
			" ",
			/* @__PURE__ */ a("bdi", { children: entry.sentence })
		] }, index))
	});
}
function PodList({ pods }) {
	const more = pods.length - PODS_SHOWN;
	return /* @__PURE__ */ a("ul", {
		class: "pods",
		children: [pods.slice(0, PODS_SHOWN).map((pod) => /* @__PURE__ */ a("li", { children: /* @__PURE__ */ a("a", {
			href: hrefTo("pod", pod.key),
			children: [
				/* @__PURE__ */ a("i", {
					class: `dot ${pod.phase}`,
					"aria-hidden": "true"
				}),
				/* @__PURE__ */ a("bdi", {
					class: "name",
					children: pod.key
				}),
				/* @__PURE__ */ a("span", {
					class: "soft",
					children: phaseOf(pod)
				})
			]
		}) }, pod.key)), more > 0 && /* @__PURE__ */ a("li", {
			class: "more",
			children: ["and ", plural(more, "other")]
		})]
	});
}
// src/detail/FunctionPanel.tsx
function FunctionPanel({ cluster, fnKey }) {
	const fn = cluster.functions.get(fnKey);
	if (fn === void 0) return /* @__PURE__ */ a("p", {
		class: "soft",
		children: "This function is not there."
	});
	const pods = cluster.podsOf(fnKey);
	return /* @__PURE__ */ a($, { children: [
		/* @__PURE__ */ a(Facts, { facts: [
			["mode", /* @__PURE__ */ a(Mode, { mode: fn.mode })],
			["replicas", replicasOf(fn)],
			["knee", fn.knee],
			["limits in force", fn.limits && `${cores(fn.limits.cpu)}, ${bytes(fn.limits.memory)}`],
			["requests in flight", fn.tracks && `${number(fn.tracks.regular)} in regular, ${number(fn.tracks.emergency)} in emergency instances`],
			["sizes", fn.sizes.length === 0 ? null : /* @__PURE__ */ a(Sizes, { sizes: fn.sizes })]
		] }),
		fn.curve !== null && fn.curve.length > 0 && /* @__PURE__ */ a($, { children: [/* @__PURE__ */ a("h3", { children: "Its curve" }), /* @__PURE__ */ a(Curve, {
			curve: fn.curve,
			knee: fn.knee,
			replicas: fn.replicas.ready
		})] }),
		/* @__PURE__ */ a("h3", { children: "Last decisions" }),
		fn.decisions.length === 0 ? /* @__PURE__ */ a("p", {
			class: "soft",
			children: "None yet."
		}) : /* @__PURE__ */ a(Timeline, { entries: fn.decisions }),
		fn.conditions.length > 0 && /* @__PURE__ */ a($, { children: [/* @__PURE__ */ a("h3", { children: "Conditions" }), /* @__PURE__ */ a("ul", {
			class: "sentences",
			children: fn.conditions.map((condition) => /* @__PURE__ */ a("li", { children: /* @__PURE__ */ a("bdi", { children: [
				/* @__PURE__ */ a("strong", { children: [
					condition.type,
					": ",
					condition.status
				] }),
				" ",
				condition.reason,
				condition.message === "" ? "" : `: ${condition.message}`
			] }) }, condition.type))
		})] }),
		/* @__PURE__ */ a("h3", { children: plural(pods.length, "pod") }),
		/* @__PURE__ */ a(PodList, { pods })
	] });
}
// src/picture/colours.ts
/** The canvas takes its colours from the style sheet, light or dark. */
function readColours() {
	const style = getComputedStyle(document.documentElement);
	const of = (name) => style.getPropertyValue(`--${name}`).trim();
	return {
		phase: {
			Pending: of("pending"),
			Creating: of("creating"),
			Ready: of("ready"),
			Terminating: of("terminating"),
			Failed: of("failed")
		},
		taken: of("taken"),
		free: of("free"),
		freeLine: of("free-line"),
		ink: of("ink"),
		soft: of("soft"),
		track: of("line"),
		fast: of("fast"),
		failed: of("failed"),
		focus: of("focus")
	};
}
function useMedia(query) {
	const [matches, setMatches] = d(() => matchMedia(query).matches);
	A(() => {
		const media = matchMedia(query);
		const changed = () => setMatches(media.matches);
		media.addEventListener("change", changed);
		return () => media.removeEventListener("change", changed);
	}, [query]);
	return matches;
}
function useColours() {
	const dark = useMedia("(prefers-color-scheme: dark)");
	const [colours, setColours] = d(readColours);
	A(() => setColours(readColours()), [dark]);
	return colours;
}
// src/picture/shape.ts
/** A pod that asks for nothing is still seen and can be clicked. */
var SMALLEST = 2;
function shapeOf(node, pods, box) {
	const usedCpu = share(node.cpu.requested, node.cpu) * box.width;
	const usedMemory = share(node.memory.requested, node.memory) * box.height;
	const free = {
		x: box.x + usedCpu,
		y: box.y,
		width: box.width - usedCpu,
		height: box.height - usedMemory
	};
	const placed = [];
	let across = 0;
	let up = 0;
	for (const pod of pods) {
		const width = share(pod.cpu, node.cpu) * box.width;
		const height = share(pod.memory, node.memory) * box.height;
		const drawnWidth = Math.max(width, SMALLEST);
		const drawnHeight = Math.max(height, SMALLEST);
		placed.push({
			pod,
			rect: {
				x: box.x + clamp(across, box.width - drawnWidth),
				y: box.y + box.height - clamp(up, box.height - drawnHeight) - drawnHeight,
				width: drawnWidth,
				height: drawnHeight
			}
		});
		across += width;
		up += height;
	}
	return {
		box,
		free,
		pods: placed
	};
}
/** The pod at a point, with a little room around small ones. */
function podAt(shape, x, y) {
	let nearest = null;
	let least = 3;
	for (const { pod, rect } of shape.pods) {
		const away = Math.max(rect.x - x, x - rect.x - rect.width, rect.y - y, y - rect.y - rect.height, 0);
		if (away < least) [nearest, least] = [pod, away];
	}
	return nearest;
}
function share(part, room) {
	return room.allocatable > 0 ? Math.min(1, Math.max(0, part / room.allocatable)) : Number(part > 0);
}
function clamp(value, most) {
	return Math.max(0, Math.min(value, most));
}
// src/picture/paint.ts
/** Draws one tile. What a tile says in words, the table and the panel say, too. */
/** From this size on a tile has text. */
var WITH_TEXT = 112;
var FONT = "ui-sans-serif, system-ui, sans-serif";
/** The box inside a tile in which pods stand. */
function boxOf(tile) {
	if (tile >= WITH_TEXT) return {
		x: 0,
		y: 20,
		width: tile,
		height: tile - 46
	};
	return {
		x: 0,
		y: 0,
		width: tile,
		height: tile - (tile >= 44 ? 6 : 4)
	};
}
function paintTile(context, node, pods, tile, colours) {
	const shape = shapeOf(node, pods, boxOf(tile));
	paintShape(context, shape, colours, tile >= 44 ? 1 : .5);
	if (!node.ready || !node.schedulable) paintBlocked(context, shape.box, node.ready ? colours.soft : colours.failed);
	paintSpeed(context, node, tile, colours);
	if (tile >= WITH_TEXT) paintText(context, node, tile, colours);
}
function paintShape(context, shape, colours, gap) {
	const { box, free } = shape;
	context.fillStyle = colours.taken;
	context.fillRect(box.x, box.y, box.width, box.height);
	if (free.width > 0 && free.height > 0) {
		context.fillStyle = colours.free;
		context.fillRect(free.x, free.y, free.width, free.height);
		if (free.width > 4 && free.height > 4) {
			context.strokeStyle = colours.freeLine;
			context.lineWidth = 1;
			context.strokeRect(free.x + .5, free.y + .5, free.width - 1, free.height - 1);
		}
	}
	for (const { pod, rect } of shape.pods) {
		context.fillStyle = colours.phase[pod.phase];
		const room = rect.width > 4 && rect.height > 4 ? gap : 0;
		context.fillRect(rect.x, rect.y + room, rect.width - room, rect.height - room);
	}
}
/** Hatched: nothing new comes here. */
function paintBlocked(context, box, colour) {
	context.save();
	context.beginPath();
	context.rect(box.x, box.y, box.width, box.height);
	context.clip();
	context.strokeStyle = colour;
	context.globalAlpha = .55;
	context.lineWidth = 1;
	context.beginPath();
	for (let x = -box.height; x < box.width; x += 6) {
		context.moveTo(box.x + x, box.y + box.height);
		context.lineTo(box.x + x + box.height, box.y);
	}
	context.stroke();
	context.restore();
}
/** A line as long as the node is fast: half is the median, all is twice as fast. */
function paintSpeed(context, node, tile, colours) {
	const height = tile >= 44 ? 3 : 2;
	const y = tile >= WITH_TEXT ? tile - 22 : tile - height;
	context.fillStyle = colours.track;
	context.fillRect(0, y, tile, height);
	if (node.relative_speed === null) return;
	context.fillStyle = colours.fast;
	context.fillRect(0, y, tile * Math.min(2, Math.max(0, node.relative_speed)) / 2, height);
}
function paintText(context, node, tile, colours) {
	context.textBaseline = "alphabetic";
	const price = node.usd_per_hour === null ? "" : `${dollars(node.usd_per_hour)}/h`;
	const speed = node.relative_speed === null ? "" : `${number(node.relative_speed)}×`;
	context.font = `11px ${FONT}`;
	context.fillStyle = colours.soft;
	context.textAlign = "left";
	context.fillText(speed, 0, tile - 5);
	context.textAlign = "right";
	context.fillText(price, tile, tile - 5);
	const creating = node.creating > 0 ? `+${node.creating}` : "";
	context.fillStyle = colours.phase.Creating;
	context.font = `600 12px ${FONT}`;
	context.fillText(creating, tile, 13);
	const room = tile - (creating === "" ? 0 : context.measureText(creating).width + 6);
	context.fillStyle = colours.ink;
	context.font = `500 12px ${FONT}`;
	context.textAlign = "left";
	context.fillText(shortened(context, node.name, room), 0, 13);
}
/** The end of a node's name tells it from the others. */
function shortened(context, text, room) {
	if (context.measureText(text).width <= room) return text;
	let from = 1;
	while (from < text.length && context.measureText(`…${text.slice(from)}`).width > room) from += 1;
	return `…${text.slice(from)}`;
}
// src/detail/NodePanel.tsx
var SIDE = 220;
function NodePanel({ cluster, name }) {
	const node = cluster.nodes.get(name);
	if (node === void 0) return /* @__PURE__ */ a("p", {
		class: "soft",
		children: "This node is not there."
	});
	const pods = [...cluster.podsOn(name)];
	return /* @__PURE__ */ a($, { children: [
		/* @__PURE__ */ a("div", {
			class: "node-shape",
			children: [/* @__PURE__ */ a(Large, {
				node,
				pods
			}), /* @__PURE__ */ a(Facts, { facts: [
				["costs", node.usd_per_hour === null ? UNKNOWN : `${dollars(node.usd_per_hour)} an hour`],
				["rented by", node.rented_by],
				["instance", [node.instance_type, node.zone].filter(Boolean).join(", ") || "unknown"],
				["state", stateOf(node)],
				["speed", node.relative_speed === null ? UNKNOWN : `${number(node.relative_speed)}× the median`],
				["one creation", measured(node)]
			] })]
		}),
		/* @__PURE__ */ a(Meter, {
			title: "CPU",
			room: node.cpu,
			show: cores
		}),
		/* @__PURE__ */ a(Meter, {
			title: "memory",
			room: node.memory,
			show: bytes
		}),
		/* @__PURE__ */ a(Sentences, {
			title: "Why it is there, and what it costs",
			sentences: node.why
		}),
		/* @__PURE__ */ a("h3", { children: [plural(pods.length, "pod"), node.creating > 0 && `, ${count(node.creating)} being created`] }),
		/* @__PURE__ */ a(PodList, { pods })
	] });
}
function Large({ node, pods }) {
	const canvas = T(null);
	const colours = useColours();
	F(() => {
		const context = canvas.current.getContext("2d");
		canvas.current.width = canvas.current.height = SIDE * devicePixelRatio;
		context.scale(devicePixelRatio, devicePixelRatio);
		paintShape(context, shapeOf(node, pods, {
			x: 0,
			y: 0,
			width: SIDE,
			height: SIDE
		}), colours, 1);
	});
	return /* @__PURE__ */ a("figure", { children: [/* @__PURE__ */ a("canvas", {
		ref: canvas,
		class: "large",
		role: "img",
		"aria-label": `${cores(free(node.cpu))} and ${bytes(free(node.memory))} are free`
	}), /* @__PURE__ */ a("figcaption", {
		class: "soft",
		children: "CPU across, memory upwards. The light rectangle is free."
	})] });
}
function Meter({ title, room, show }) {
	const percent = room.allocatable > 0 ? Math.min(100, 100 * room.requested / room.allocatable) : 0;
	return /* @__PURE__ */ a("div", {
		class: "meter",
		children: [
			/* @__PURE__ */ a("span", { children: title }),
			/* @__PURE__ */ a("span", {
				class: "bar",
				"aria-hidden": "true",
				children: /* @__PURE__ */ a("i", {
					class: "ready",
					style: { width: `${percent}%` }
				})
			}),
			/* @__PURE__ */ a("span", {
				class: "soft",
				children: [
					show(room.requested),
					" of ",
					show(room.allocatable),
					" taken"
				]
			})
		]
	});
}
function measured(node) {
	if (node.creation_s === null) return UNKNOWN;
	const age = node.speed_age_s === null ? "" : `, measured ${seconds(node.speed_age_s)} ago`;
	return `${seconds(node.creation_s)}${age}`;
}
// src/detail/TermBars.tsx
/** Who lost by how much: the cost of each node, as a bar made of its terms. */
var COLOURS = 6;
function TermBars({ nodes, chosen }) {
	const terms = [...new Set(nodes.flatMap((node) => Object.keys(node.terms)))];
	const most = Math.max(...nodes.map((node) => sum(node)), 1e-9);
	return /* @__PURE__ */ a($, { children: [/* @__PURE__ */ a("ul", {
		class: "legend",
		"aria-hidden": "true",
		children: terms.map((term, index) => /* @__PURE__ */ a("li", { children: [
			/* @__PURE__ */ a("i", { class: `term-${index % COLOURS}` }),
			" ",
			/* @__PURE__ */ a("bdi", { children: term })
		] }, term))
	}), /* @__PURE__ */ a("table", {
		class: "bars",
		children: [
			/* @__PURE__ */ a("caption", {
				class: "unseen",
				children: "Nodes by cost, the best first, and by how much the others lost"
			}),
			/* @__PURE__ */ a("thead", {
				class: "unseen",
				children: /* @__PURE__ */ a("tr", { children: [
					/* @__PURE__ */ a("th", {
						scope: "col",
						children: "node"
					}),
					/* @__PURE__ */ a("th", {
						scope: "col",
						children: "cost"
					}),
					/* @__PURE__ */ a("th", {
						scope: "col",
						children: "lost by"
					})
				] })
			}),
			/* @__PURE__ */ a("tbody", { children: nodes.map((node) => /* @__PURE__ */ a("tr", {
				class: node.name === chosen ? "chosen" : void 0,
				children: [
					/* @__PURE__ */ a("th", {
						scope: "row",
						children: [/* @__PURE__ */ a("a", {
							href: hrefTo("node", node.name),
							children: /* @__PURE__ */ a("bdi", { children: node.name })
						}), node.name === chosen && /* @__PURE__ */ a("span", {
							class: "tag",
							children: "chosen"
						})]
					}),
					/* @__PURE__ */ a("td", { children: [/* @__PURE__ */ a("span", {
						class: "stack",
						"aria-hidden": "true",
						children: terms.map((term, index) => /* @__PURE__ */ a("i", {
							class: `term-${index % COLOURS}`,
							title: `${term}: ${number(node.terms[term] ?? 0)}`,
							style: { width: `${100 * Math.max(0, node.terms[term] ?? 0) / most}%` }
						}, term))
					}), /* @__PURE__ */ a("span", {
						class: "unseen",
						children: [
							seconds(node.cost),
							": ",
							terms.map((term) => `${term} ${number(node.terms[term] ?? 0)}`).join(", ")
						]
					})] }),
					/* @__PURE__ */ a("td", {
						class: "numeric",
						children: node.lost_by === 0 ? "best" : `+${seconds(node.lost_by)}`
					})
				]
			}, node.name)) })
		]
	})] });
}
function sum(node) {
	return Object.values(node.terms).reduce((total, value) => total + Math.max(0, value), 0);
}
// src/detail/PodPanel.tsx
function PodPanel({ cluster, podKey }) {
	const pod = cluster.pods.get(podKey);
	const explained = useExplanation(podKey, pod?.node ?? null);
	if (pod === void 0) return /* @__PURE__ */ a("p", {
		class: "soft",
		children: "This pod is not there."
	});
	return /* @__PURE__ */ a($, { children: [
		/* @__PURE__ */ a(Facts, { facts: [
			["phase", phaseOf(pod)],
			["node", pod.node === null ? "none yet" : /* @__PURE__ */ a("a", {
				href: hrefTo("node", pod.node),
				children: /* @__PURE__ */ a("bdi", { children: pod.node })
			})],
			["asks for", `${cores(pod.cpu)}, ${bytes(pod.memory)}`],
			["function", pod.function === null ? null : /* @__PURE__ */ a("a", {
				href: hrefTo("function", pod.function),
				children: /* @__PURE__ */ a("bdi", { children: pod.function })
			})],
			["created", timeOfDay(pod.created_at)]
		] }),
		/* @__PURE__ */ a(Sentences, {
			title: "Why it is where it is",
			sentences: pod.why
		}),
		/* @__PURE__ */ a("h3", { children: "Who lost, by how much" }),
		explained === "waiting" && /* @__PURE__ */ a("p", {
			class: "soft",
			children: "No node was chosen yet."
		}),
		explained === "asking" && /* @__PURE__ */ a("p", {
			class: "soft",
			children: "Asking the extender…"
		}),
		explained instanceof Error && /* @__PURE__ */ a("p", {
			class: "soft",
			children: explained.message
		}),
		isExplanation(explained) && /* @__PURE__ */ a($, { children: [
			/* @__PURE__ */ a("p", {
				class: "soft",
				children: [
					"Decided at ",
					timeOfDay(explained.decided_at),
					" ",
					/* @__PURE__ */ a(Mode, { mode: explained.mode })
				]
			}),
			/* @__PURE__ */ a(Sentences, { sentences: explained.reasons }),
			explained.nodes.length > 0 && /* @__PURE__ */ a(TermBars, {
				nodes: explained.nodes,
				chosen: pod.node
			})
		] })
	] });
}
function isExplanation(asked) {
	return typeof asked === "object" && !(asked instanceof Error);
}
/** Asked when the pod has a node: the decision came before. */
function useExplanation(key, node) {
	const [asked, set] = d("waiting");
	A(() => {
		if (node === null) return set("waiting");
		const abort = new AbortController();
		set("asking");
		explain(key, abort.signal).then(set, (error) => {
			if (!abort.signal.aborted) set(error instanceof Error ? error : new Error(String(error)));
		});
		return () => abort.abort();
	}, [key, node]);
	return asked;
}
async function explain(key, signal) {
	const slash = key.indexOf("/");
	const [namespace, name] = [key.slice(0, slash), key.slice(slash + 1)].map(encodeURIComponent);
	const answer = await fetch(`explain/pod/${namespace}/${name}`, { signal });
	const said = await answer.json().catch(() => null);
	if (answer.ok && said !== null) return said;
	throw new Error(said?.error ?? "The extender has no decision about this pod.");
}
// src/detail/Panel.tsx
/** What was clicked, in full. The focus goes to it and back. */
function Panel({ cluster, selected: { kind, key } }) {
	const heading = T(null);
	const before = T(null);
	A(() => {
		before.current = document.activeElement;
		return () => {
			if (before.current instanceof HTMLElement && before.current.isConnected) before.current.focus();
		};
	}, []);
	A(() => heading.current?.focus(), [kind, key]);
	return /* @__PURE__ */ a("aside", {
		class: "right panel",
		"aria-labelledby": "panel-title",
		onKeyDown: (event) => event.key === "Escape" && close(),
		children: [
			/* @__PURE__ */ a("div", {
				class: "panel-head",
				children: [/* @__PURE__ */ a("h2", {
					id: "panel-title",
					ref: heading,
					tabIndex: -1,
					children: [
						/* @__PURE__ */ a("small", { children: kind }),
						/* @__PURE__ */ a("bdi", { children: kind === "node" ? key : nameOf(key) }),
						kind !== "node" && /* @__PURE__ */ a("small", {
							class: "whole",
							children: /* @__PURE__ */ a("bdi", { children: key })
						})
					]
				}), /* @__PURE__ */ a("button", {
					type: "button",
					class: "close",
					onClick: close,
					"aria-label": "Close",
					children: "×"
				})]
			}),
			kind === "node" && /* @__PURE__ */ a(NodePanel, {
				cluster,
				name: key
			}),
			kind === "pod" && /* @__PURE__ */ a(PodPanel, {
				cluster,
				podKey: key
			}),
			kind === "function" && /* @__PURE__ */ a(FunctionPanel, {
				cluster,
				fnKey: key
			})
		]
	});
}
function close() {
	go({
		...readRoute(location.hash),
		selected: null
	});
}
// src/HeadLine.tsx
function HeadLine({ name, head, at, connected }) {
	const figures = [
		[head.nodes === 1 ? "node" : "nodes", count(head.nodes)],
		[head.pods === 1 ? "pod" : "pods", count(head.pods)],
		["an hour", head.usd_per_hour === null ? null : dollars(head.usd_per_hour)],
		["requests a second", head.requests_per_s === null ? null : number(head.requests_per_s)],
		["cold starts in the last minute", head.cold_starts_last_minute === null ? null : number(head.cold_starts_last_minute)]
	];
	return /* @__PURE__ */ a("header", { children: [/* @__PURE__ */ a("div", {
		class: "title",
		children: [/* @__PURE__ */ a("h1", { children: [
			/* @__PURE__ */ a("span", {
				class: "brand",
				children: "surgekit"
			}),
			" ",
			/* @__PURE__ */ a("bdi", { children: name })
		] }), /* @__PURE__ */ a("p", {
			class: connected ? "connection" : "connection lost",
			role: "status",
			children: connected ? "live" : `Connection lost. This is the cluster as it was at ${timeOfDay(at)}; trying again.`
		})]
	}), /* @__PURE__ */ a("dl", {
		class: "figures",
		children: figures.map(([what, value]) => /* @__PURE__ */ a("div", { children: [/* @__PURE__ */ a("dt", { children: what }), /* @__PURE__ */ a("dd", {
			class: value === null ? "unknown" : void 0,
			children: value ?? "unknown"
		})] }, what))
	})] });
}
// src/order.ts
var ORDERS = {
	name: null,
	speed: (node) => -(node.relative_speed ?? 0),
	price: (node) => -(node.usd_per_hour ?? 0),
	"free CPU": (node) => -free(node.cpu),
	"free memory": (node) => -free(node.memory)
};
var byName = new Intl.Collator("en", { numeric: true });
function ordered(cluster, order, find) {
	const sought = find.trim().toLowerCase();
	const nodes = [...cluster.nodes.values()].filter((node) => sought === "" || matches(cluster, node, sought));
	const rank = ORDERS[order];
	nodes.sort((a, b) => (rank === null ? 0 : rank(a) - rank(b)) || byName.compare(a.name, b.name));
	return nodes.map((node) => node.name);
}
function matches(cluster, node, sought) {
	if ([
		node.name,
		node.instance_type,
		node.zone,
		node.rented_by
	].some((text) => text?.toLowerCase().includes(sought))) return true;
	for (const pod of cluster.podsOn(node.name)) if (pod.key.toLowerCase().includes(sought)) return true;
	return false;
}
// src/picture/layout.ts
/** Least sides: from tiles with text to tiles that are only a shape. */
var TILE_SIZES = [
	148,
	112,
	84,
	60,
	44,
	32,
	24
];
/** Tiles of at least this size, a little larger where that fills the width. */
function layOut(count, width, least) {
	const gap = least >= 84 ? 10 : least >= 44 ? 6 : 3;
	const columns = Math.max(1, Math.floor((width + gap) / (least + gap)));
	const tile = Math.max(least, Math.floor((width + gap) / columns) - gap);
	const rows = Math.ceil(count / columns);
	return {
		tile,
		gap,
		columns,
		rows,
		height: Math.max(0, rows * (tile + gap) - gap)
	};
}
/** The largest tiles with which everything is seen at once, else the smallest. */
function fit(count, width, height) {
	return TILE_SIZES.find((least) => layOut(count, width, least).height <= height) ?? TILE_SIZES[TILE_SIZES.length - 1];
}
function position(grid, index) {
	const step = grid.tile + grid.gap;
	return {
		x: index % grid.columns * step,
		y: Math.floor(index / grid.columns) * step
	};
}
/** The tiles of [from, to) can be seen. */
function visible(grid, count, top, height) {
	const step = grid.tile + grid.gap;
	const firstRow = Math.max(0, Math.floor(top / step));
	const lastRow = Math.floor((top + height) / step);
	return {
		from: Math.min(count, firstRow * grid.columns),
		to: Math.min(count, (lastRow + 1) * grid.columns)
	};
}
/** The tile at a point; null between tiles. */
function tileAt(grid, count, x, y) {
	const step = grid.tile + grid.gap;
	const column = Math.floor(x / step);
	const row = Math.floor(y / step);
	if (x < 0 || y < 0 || column >= grid.columns || x % step > grid.tile || y % step > grid.tile) return null;
	const index = row * grid.columns + column;
	return index < count ? index : null;
}
// src/picture/painter.ts
/** A pod drawn smaller than this is marked whole, not by a ring. */
var SMALL = 6;
var Painter = class {
	cluster;
	scroller;
	scene = null;
	index = /* @__PURE__ */ new Map();
	marks = {
		active: null,
		hovered: null
	};
	width = 0;
	height = 0;
	tiles;
	over;
	constructor(cluster, scroller, tiles, over) {
		this.cluster = cluster;
		this.scroller = scroller;
		this.tiles = tiles.getContext("2d");
		this.over = over.getContext("2d");
	}
	show(scene, width, height) {
		if (scene.names !== this.scene?.names) this.index = new Map(scene.names.map((name, at) => [name, at]));
		this.scene = scene;
		this.resize(width, height);
		this.paint();
	}
	mark(marks) {
		this.marks = marks;
		this.paintMarks();
	}
	paint() {
		if (this.scene === null) return;
		this.tiles.clearRect(0, 0, this.width, this.height);
		const { from, to } = this.inSight(this.scene);
		for (let at = from; at < to; at += 1) this.paintAt(this.scene, at);
		this.paintMarks();
		if (this.scene.names.length > 0) firstPicture();
	}
	/** Only the tiles in sight that changed. */
	touch(touched) {
		if (this.scene === null) return;
		const { from, to } = this.inSight(this.scene);
		for (const name of touched) {
			const at = this.index.get(name);
			if (at !== void 0 && at >= from && at < to) this.paintAt(this.scene, at);
		}
		this.paintMarks();
	}
	/** What is at a point of the scroller. */
	at(x, y) {
		if (this.scene === null) return null;
		const { grid, names } = this.scene;
		const [left, top] = [x - 4, y + this.scroller.scrollTop - 4];
		const index = tileAt(grid, names.length, left, top);
		const node = index === null ? void 0 : this.cluster.nodes.get(names[index]);
		if (index === null || node === void 0) return null;
		const corner = position(grid, index);
		return {
			index,
			node,
			pod: podAt(shapeOf(node, this.cluster.podsOn(node.name), boxOf(grid.tile)), left - corner.x, top - corner.y)
		};
	}
	inSight(scene) {
		return visible(scene.grid, scene.names.length, this.scroller.scrollTop - 4, this.height);
	}
	paintAt(scene, at) {
		const node = this.cluster.nodes.get(scene.names[at]);
		this.inTile(this.tiles, scene.grid, at, () => {
			this.tiles.clearRect(-1, -1, scene.grid.tile + 2, scene.grid.tile + 2);
			if (node === void 0) return;
			paintTile(this.tiles, node, this.cluster.podsOn(node.name), scene.grid.tile, scene.colours);
		});
	}
	paintMarks() {
		const scene = this.scene;
		if (scene === null) return;
		this.over.clearRect(0, 0, this.width, this.height);
		const { colours, selected } = scene;
		const { from, to } = this.inSight(scene);
		if (selected !== null && selected.kind !== "node") for (let at = from; at < to; at += 1) this.markPods(scene, at, (pod) => isMeant(pod, selected));
		if (selected?.kind === "node") this.ring(scene, this.index.get(selected.key) ?? null, colours.ink, 2);
		this.ring(scene, this.marks.hovered, colours.soft, 1);
		this.ring(scene, this.marks.active, colours.focus, 2);
	}
	markPods(scene, at, meant) {
		const node = this.cluster.nodes.get(scene.names[at]);
		if (node === void 0) return;
		const shape = shapeOf(node, this.cluster.podsOn(node.name), boxOf(scene.grid.tile));
		this.inTile(this.over, scene.grid, at, () => {
			this.over.strokeStyle = this.over.fillStyle = scene.colours.ink;
			this.over.lineWidth = 1.5;
			for (const { pod, rect } of shape.pods) {
				if (!meant(pod)) continue;
				if (rect.width < SMALL || rect.height < SMALL) this.over.fillRect(rect.x, rect.y, rect.width, rect.height);
				else this.over.strokeRect(rect.x + 1, rect.y + 1, rect.width - 2, rect.height - 2);
			}
		});
	}
	ring(scene, at, colour, width) {
		if (at === null || at >= scene.names.length) return;
		this.inTile(this.over, scene.grid, at, () => {
			this.over.strokeStyle = colour;
			this.over.lineWidth = width;
			this.over.strokeRect(-2, -2, scene.grid.tile + 4, scene.grid.tile + 4);
		});
	}
	inTile(context, grid, at, draw) {
		const { x, y } = position(grid, at);
		context.save();
		context.translate(4 + x, 4 + y - this.scroller.scrollTop);
		draw();
		context.restore();
	}
	resize(width, height) {
		if (width === this.width && height === this.height) return;
		[this.width, this.height] = [width, height];
		const ratio = devicePixelRatio;
		for (const context of [this.tiles, this.over]) {
			const { canvas } = context;
			canvas.width = Math.round(width * ratio);
			canvas.height = Math.round(height * ratio);
			canvas.style.width = `${width}px`;
			canvas.style.height = `${height}px`;
			context.setTransform(ratio, 0, 0, ratio, 0, 0);
		}
	}
};
function isMeant(pod, selected) {
	return selected.kind === "pod" ? pod.key === selected.key : pod.function === selected.key;
}
/** For `surgekit bench ui`: when there was something to see. */
function firstPicture() {
	if (performance.getEntriesByName("first-picture").length === 0) performance.mark("first-picture");
}
// src/picture/NodePicture.tsx
/** All nodes as tiles. The keyboard moves over them as over a list; a screen reader hears the one it is at. */
function NodePicture({ cluster, names, selected }) {
	const scroller = T(null);
	const tilesCanvas = T(null);
	const overCanvas = T(null);
	const painter = T(null);
	const [width, room] = useRoom(scroller);
	const [chosen, choose] = d(null);
	const [active, setActive] = d(0);
	const [focused, setFocused] = d(false);
	const [hovered, setHovered] = d(null);
	const [hint, setHint] = d(null);
	const colours = useColours();
	const within = width - 8;
	const least = chosen ?? fit(names.length, within, room - 8);
	const grid = layOut(names.length, within, least);
	const { tile } = grid;
	const height = Math.min(room, grid.height + 8);
	const at = Math.min(active, names.length - 1);
	const node = cluster.nodes.get(names[at] ?? "");
	F(() => {
		painter.current = new Painter(cluster, scroller.current, tilesCanvas.current, overCanvas.current);
		return cluster.subscribe((touched) => touched !== null && painter.current?.touch(touched));
	}, [cluster]);
	F(() => {
		if (width > 0) painter.current?.show({
			names,
			grid,
			colours,
			selected
		}, width, height);
	}, [
		names,
		grid.tile,
		grid.columns,
		colours,
		selected,
		width,
		height
	]);
	F(() => {
		painter.current?.mark({
			active: focused ? at : null,
			hovered
		});
	}, [
		focused,
		at,
		hovered
	]);
	const moveTo = (index) => {
		const next = Math.max(0, Math.min(names.length - 1, index));
		const { y } = position(grid, next);
		const view = scroller.current;
		if (y < view.scrollTop) view.scrollTop = y;
		else if (y + tile + 8 > view.scrollTop + height) view.scrollTop = y + tile + 8 - height;
		setActive(next);
	};
	const onKeyDown = (event) => {
		const page = Math.max(1, Math.floor(height / (tile + grid.gap))) * grid.columns;
		const next = {
			ArrowLeft: at - 1,
			ArrowRight: at + 1,
			ArrowUp: at - grid.columns,
			ArrowDown: at + grid.columns,
			PageUp: at - page,
			PageDown: at + page,
			Home: 0,
			End: names.length - 1
		}[event.key];
		if (next !== void 0) moveTo(next);
		else if (event.key === "Enter" || event.key === " ") open("node", names[at]);
		else return;
		event.preventDefault();
	};
	const pointed = (event) => {
		const view = scroller.current.getBoundingClientRect();
		const [x, y] = [event.clientX - view.left, event.clientY - view.top];
		return {
			x,
			y,
			found: painter.current?.at(x, y) ?? null
		};
	};
	const onMove = (event) => {
		const { x, y, found } = pointed(event);
		setHovered(found?.index ?? null);
		if (found === null) return setHint(null);
		const { node, pod } = found;
		const lines = pod === null ? [freeOf(node), `${speedOf(node)}, ${priceOf(node)}`] : [phaseOf(pod), `on ${node.name}`];
		setHint({
			x,
			y,
			title: pod?.key ?? node.name,
			lines
		});
	};
	const onClick = (event) => {
		const { found } = pointed(event);
		if (found === null) return;
		setActive(found.index);
		if (found.pod === null) open("node", found.node.name);
		else open("pod", found.pod.key);
	};
	const zoom = (by) => {
		const next = TILE_SIZES[TILE_SIZES.findIndex((size) => size === least) + by];
		if (next !== void 0) choose(next);
	};
	return /* @__PURE__ */ a("div", {
		class: "picture",
		children: [
			/* @__PURE__ */ a("div", {
				class: "zoom",
				role: "group",
				"aria-label": "Size of tiles",
				children: [
					/* @__PURE__ */ a("button", {
						type: "button",
						onClick: () => zoom(1),
						disabled: least === TILE_SIZES.at(-1),
						"aria-label": "Smaller tiles",
						children: "−"
					}),
					/* @__PURE__ */ a("button", {
						type: "button",
						onClick: () => choose(null),
						disabled: chosen === null,
						children: "fit"
					}),
					/* @__PURE__ */ a("button", {
						type: "button",
						onClick: () => zoom(-1),
						disabled: least === TILE_SIZES[0],
						"aria-label": "Larger tiles",
						children: "+"
					})
				]
			}),
			/* @__PURE__ */ a("div", {
				class: "tiles",
				ref: scroller,
				role: "listbox",
				"aria-label": "Nodes. Arrow keys move, Enter opens.",
				tabIndex: 0,
				"aria-activedescendant": node === void 0 ? void 0 : "active-node",
				style: { height: `${height}px` },
				onKeyDown,
				onFocus: () => setFocused(true),
				onBlur: () => setFocused(false),
				onScroll: () => painter.current?.paint(),
				onMouseMove: onMove,
				onMouseLeave: () => (setHovered(null), setHint(null)),
				onClick,
				children: [node !== void 0 && /* @__PURE__ */ a("div", {
					id: "active-node",
					class: "unseen",
					role: "option",
					"aria-selected": selected?.kind === "node" && selected.key === node.name,
					"aria-posinset": at + 1,
					"aria-setsize": names.length,
					children: [
						node.name,
						": ",
						nodeInWords(node)
					]
				}), /* @__PURE__ */ a("div", {
					class: "sheet",
					role: "presentation",
					style: { height: `${grid.height + 8}px` },
					children: /* @__PURE__ */ a("div", {
						class: "canvases",
						role: "presentation",
						children: [/* @__PURE__ */ a("canvas", {
							ref: tilesCanvas,
							role: "presentation"
						}), /* @__PURE__ */ a("canvas", {
							ref: overCanvas,
							role: "presentation"
						})]
					})
				})]
			}),
			hint !== null && /* @__PURE__ */ a("div", {
				class: "hint",
				"aria-hidden": "true",
				style: {
					[hint.x > width / 2 ? "right" : "left"]: `${hint.x > width / 2 ? width - hint.x + 12 : hint.x + 12}px`,
					top: `${hint.y + 16}px`
				},
				children: [/* @__PURE__ */ a("strong", { children: hint.title }), hint.lines.map((line) => /* @__PURE__ */ a("span", { children: line }, line))]
			})
		]
	});
}
function open(kind, key) {
	if (key !== void 0) go({
		...readRoute(location.hash),
		selected: {
			kind,
			key
		}
	});
}
/** The width there is, and the height that tiles may take of the window. */
function useRoom(element) {
	const [size, setSize] = d([0, 0]);
	A(() => {
		const measured = element.current;
		const measure = () => setSize([measured.clientWidth, Math.round(innerHeight * .6)]);
		const observer = new ResizeObserver(measure);
		observer.observe(measured);
		addEventListener("resize", measure);
		return () => {
			observer.disconnect();
			removeEventListener("resize", measure);
		};
	}, []);
	return size;
}
// src/Starting.tsx
var SHOWN = 24;
function Starting({ cluster }) {
	const oldestFirst = [...cluster.starting.values()].sort((a, b) => a.created_at < b.created_at ? -1 : 1);
	const waiting = oldestFirst.filter((pod) => pod.node === null).length;
	const more = oldestFirst.length - SHOWN;
	return /* @__PURE__ */ a("section", {
		"aria-labelledby": "starting-title",
		children: [/* @__PURE__ */ a("h2", {
			id: "starting-title",
			children: ["Pods on their way ", /* @__PURE__ */ a("small", { children: summary(oldestFirst.length - waiting, waiting) })]
		}), oldestFirst.length > 0 && /* @__PURE__ */ a("ul", {
			class: "pods",
			children: [oldestFirst.slice(0, SHOWN).map((pod) => /* @__PURE__ */ a(Row, {
				pod,
				now: cluster.at
			}, pod.key)), more > 0 && /* @__PURE__ */ a("li", {
				class: "more",
				children: ["and ", plural(more, "other")]
			})]
		})]
	});
}
function Row({ pod, now }) {
	return /* @__PURE__ */ a("li", { children: /* @__PURE__ */ a("a", {
		href: hrefTo("pod", pod.key),
		children: [
			/* @__PURE__ */ a("i", {
				class: `dot ${pod.phase}`,
				"aria-hidden": "true"
			}),
			/* @__PURE__ */ a("bdi", {
				class: "name",
				children: pod.key
			}),
			/* @__PURE__ */ a("span", {
				class: "soft",
				children: pod.node === null ? "waits for a node" : /* @__PURE__ */ a($, { children: ["on ", pod.node] })
			}),
			/* @__PURE__ */ a("span", {
				class: "figure",
				children: elapsed(secondsBetween(pod.created_at, now))
			})
		]
	}) });
}
function summary(creating, waiting) {
	if (creating + waiting === 0) return "none";
	const parts = [];
	if (creating > 0) parts.push(`${plural(creating, "pod")} being created`);
	if (waiting > 0) parts.push(`${plural(waiting, "pod")} without a node`);
	return parts.join(", ");
}
// src/stream.ts
var FIRST_WAIT_MS = 1e3;
var LONGEST_WAIT_MS = 15e3;
/** More than twice what the server is silent at most (server.py, _HEARTBEAT_S): `alive` comes when nothing changes. */
var SILENCE_MS = 25e3;
function listen(url, handlers) {
	let source = null;
	let waitMs = FIRST_WAIT_MS;
	let retry;
	let silence;
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
			handlers.onState(JSON.parse(event.data));
			heard();
		});
		source.addEventListener("change", (event) => {
			handlers.onChange(JSON.parse(event.data));
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
// src/Tables.tsx
var ROWS_A_PAGE = 100;
var NODES = [
	{
		title: "node",
		value: (n) => n.name,
		show: (n) => /* @__PURE__ */ a(Link, {
			kind: "node",
			to: n.name
		})
	},
	{
		title: "state",
		value: stateOf
	},
	{
		title: "instance",
		value: (n) => n.instance_type,
		show: (n) => orUnknown(n.instance_type)
	},
	{
		title: "zone",
		value: (n) => n.zone,
		show: (n) => orUnknown(n.zone)
	},
	{
		title: "$/h",
		value: (n) => n.usd_per_hour,
		show: (n) => orUnknown(n.usd_per_hour, dollars),
		numeric: true
	},
	{
		title: "speed",
		value: (n) => n.relative_speed,
		show: (n) => orUnknown(n.relative_speed, (v) => `${number(v)}×`),
		numeric: true
	},
	{
		title: "creation",
		value: (n) => n.creation_s,
		show: (n) => orUnknown(n.creation_s, seconds),
		numeric: true
	},
	{
		title: "free CPU",
		value: (n) => free(n.cpu),
		show: (n) => `${number(free(n.cpu))} of ${cores(n.cpu.allocatable)}`,
		numeric: true
	},
	{
		title: "free memory",
		value: (n) => free(n.memory),
		show: (n) => `${bytes(free(n.memory))} of ${bytes(n.memory.allocatable)}`,
		numeric: true
	},
	{
		title: "pods",
		value: (n) => n.pods,
		numeric: true
	},
	{
		title: "being created",
		value: (n) => n.creating,
		numeric: true
	}
];
var PODS = [
	{
		title: "pod",
		value: (p) => p.key,
		show: (p) => /* @__PURE__ */ a(Link, {
			kind: "pod",
			to: p.key
		})
	},
	{
		title: "phase",
		value: (p) => p.phase
	},
	{
		title: "node",
		value: (p) => p.node,
		show: (p) => p.node === null ? "none yet" : /* @__PURE__ */ a(Link, {
			kind: "node",
			to: p.node
		})
	},
	{
		title: "function",
		value: (p) => p.function,
		show: (p) => p.function && /* @__PURE__ */ a(Link, {
			kind: "function",
			to: p.function
		})
	},
	{
		title: "CPU",
		value: (p) => p.cpu,
		show: (p) => cores(p.cpu),
		numeric: true
	},
	{
		title: "memory",
		value: (p) => p.memory,
		show: (p) => bytes(p.memory),
		numeric: true
	},
	{
		title: "Ready after",
		value: (p) => p.ready_after_s,
		show: (p) => p.ready_after_s === null ? "" : seconds(p.ready_after_s),
		numeric: true
	}
];
var FUNCTIONS = [
	{
		title: "function",
		value: (f) => f.key,
		show: (f) => /* @__PURE__ */ a(Link, {
			kind: "function",
			to: f.key
		})
	},
	{
		title: "mode",
		value: (f) => f.mode
	},
	{
		title: "replicas",
		value: (f) => f.replicas.ready,
		show: replicasOf,
		numeric: true
	},
	{
		title: "sizes",
		value: (f) => f.sizes.length,
		show: (f) => f.sizes.map((s) => `${s.count} × ${cores(s.cpu)}, ${bytes(s.memory)}`).join("; ")
	},
	{
		title: "knee",
		value: (f) => f.knee,
		numeric: true
	},
	{
		title: "CPU limit",
		value: (f) => f.limits?.cpu ?? null,
		show: (f) => f.limits && cores(f.limits.cpu),
		numeric: true
	},
	{
		title: "memory limit",
		value: (f) => f.limits?.memory ?? null,
		show: (f) => f.limits && bytes(f.limits.memory),
		numeric: true
	},
	{
		title: "regular",
		value: (f) => f.tracks?.regular ?? null,
		numeric: true
	},
	{
		title: "emergency",
		value: (f) => f.tracks?.emergency ?? null,
		numeric: true
	}
];
function Tables({ cluster, of, find }) {
	const { selected } = readRoute(location.hash);
	return /* @__PURE__ */ a("div", {
		class: "tables",
		children: [
			/* @__PURE__ */ a("nav", {
				class: "choice",
				"aria-label": "Which table",
				children: [
					"nodes",
					"pods",
					"functions"
				].map((name) => /* @__PURE__ */ a("a", {
					href: href({
						table: name,
						selected
					}),
					"aria-current": name === of ? "true" : void 0,
					children: [
						name,
						" ",
						count(cluster[name].size)
					]
				}, name))
			}),
			of === "nodes" && /* @__PURE__ */ a(Sorted, {
				caption: "Nodes",
				columns: NODES,
				rows: [...cluster.nodes.values()],
				find,
				keyOf: (n) => n.name
			}, "nodes"),
			of === "pods" && /* @__PURE__ */ a(Sorted, {
				caption: "Pods",
				columns: PODS,
				rows: [...cluster.pods.values()],
				find,
				keyOf: (p) => p.key
			}, "pods"),
			of === "functions" && /* @__PURE__ */ a(Sorted, {
				caption: "Functions",
				columns: FUNCTIONS,
				rows: [...cluster.functions.values()],
				find,
				keyOf: (f) => f.key
			}, "functions")
		]
	});
}
function Sorted({ caption, columns, rows, find, keyOf }) {
	const [by, setBy] = d({
		column: 0,
		ascending: true
	});
	const [page, setPage] = d(0);
	const sought = find.toLowerCase();
	const found = sought === "" ? rows : rows.filter((row) => columns.some((c) => String(c.value(row) ?? "").toLowerCase().includes(sought)));
	const { value } = columns[by.column];
	found.sort((a, b) => compare(value(a), value(b)) * (by.ascending ? 1 : -1));
	const pages = Math.max(1, Math.ceil(found.length / ROWS_A_PAGE));
	const at = Math.min(page, pages - 1);
	const seen = found.slice(at * ROWS_A_PAGE, (at + 1) * ROWS_A_PAGE);
	return /* @__PURE__ */ a($, { children: [/* @__PURE__ */ a("div", {
		class: "table-room",
		tabIndex: 0,
		role: "region",
		"aria-label": caption,
		children: /* @__PURE__ */ a("table", {
			"aria-rowcount": found.length + 1,
			children: [
				/* @__PURE__ */ a("caption", {
					class: "unseen",
					children: caption
				}),
				/* @__PURE__ */ a("thead", { children: /* @__PURE__ */ a("tr", { children: columns.map((column, index) => /* @__PURE__ */ a("th", {
					scope: "col",
					class: column.numeric ? "numeric" : void 0,
					"aria-sort": index !== by.column ? "none" : by.ascending ? "ascending" : "descending",
					children: /* @__PURE__ */ a("button", {
						type: "button",
						onClick: () => setBy({
							column: index,
							ascending: index !== by.column || !by.ascending
						}),
						children: [column.title, /* @__PURE__ */ a("span", {
							"aria-hidden": "true",
							children: index !== by.column ? "" : by.ascending ? " ↑" : " ↓"
						})]
					})
				}, column.title)) }) }),
				/* @__PURE__ */ a("tbody", { children: seen.map((row, index) => /* @__PURE__ */ a("tr", {
					"aria-rowindex": at * ROWS_A_PAGE + index + 2,
					children: columns.map((column) => /* @__PURE__ */ a("td", {
						class: column.numeric ? "numeric" : void 0,
						children: column.show === void 0 ? column.value(row) : column.show(row)
					}, column.title))
				}, keyOf(row))) })
			]
		})
	}), /* @__PURE__ */ a("div", {
		class: "pages",
		children: [/* @__PURE__ */ a("span", { children: plural(found.length, "row") }), pages > 1 && /* @__PURE__ */ a($, { children: [
			/* @__PURE__ */ a("button", {
				type: "button",
				disabled: at === 0,
				onClick: () => setPage(at - 1),
				children: "previous"
			}),
			/* @__PURE__ */ a("span", { children: [
				"page ",
				at + 1,
				" of ",
				pages
			] }),
			/* @__PURE__ */ a("button", {
				type: "button",
				disabled: at === pages - 1,
				onClick: () => setPage(at + 1),
				children: "next"
			})
		] })]
	})] });
}
function Link({ kind, to }) {
	return /* @__PURE__ */ a("a", {
		href: hrefTo(kind, to),
		children: /* @__PURE__ */ a("bdi", { children: to })
	});
}
function orUnknown(value, show = String) {
	return value === null ? /* @__PURE__ */ a("span", {
		class: "soft",
		children: UNKNOWN
	}) : show(value);
}
function compare(a, b) {
	if (a === b) return 0;
	if (a === null || b === null) return a === null ? 1 : -1;
	return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
}
// src/useCluster.ts
/** Renders again after each change, at most twice a second. */
function useCluster(cluster) {
	const [, again] = _((count) => count + 1, 0);
	A(() => cluster.subscribe(() => again(void 0)), [cluster]);
}
// src/App.tsx
var LEGEND = [
	["Ready", "Ready"],
	["Creating", "being created"],
	["Terminating", "ends"],
	["Failed", "failed"]
];
function App({ cluster }) {
	const [connected, setConnected] = d(true);
	const [find, setFind] = d("");
	const [order, setOrder] = d("name");
	const route = useRoute();
	const names = useOrder(cluster, order, find);
	useCluster(cluster);
	A(() => listen("events", {
		onState: (snapshot) => cluster.replace(snapshot),
		onChange: (change) => cluster.apply(change),
		onConnection: setConnected
	}), [cluster]);
	A(() => {
		document.title = cluster.name === "" ? "surgekit" : `${cluster.name} · surgekit`;
	}, [cluster.name]);
	return /* @__PURE__ */ a("div", {
		class: connected ? "page" : "page stale",
		children: [
			/* @__PURE__ */ a("a", {
				class: "skip",
				href: "#right",
				onClick: skip,
				children: "Skip to decisions"
			}),
			/* @__PURE__ */ a(HeadLine, {
				name: cluster.name,
				head: cluster.head,
				at: cluster.at,
				connected
			}),
			/* @__PURE__ */ a("main", {
				"aria-busy": !cluster.loaded,
				children: [/* @__PURE__ */ a("div", {
					class: "left",
					children: [
						/* @__PURE__ */ a("section", {
							"aria-labelledby": "nodes-title",
							children: [/* @__PURE__ */ a("div", {
								class: "section-head",
								children: [
									/* @__PURE__ */ a("h2", {
										id: "nodes-title",
										children: route.table === null ? "Nodes" : "Tables"
									}),
									/* @__PURE__ */ a("nav", {
										class: "choice",
										"aria-label": "How it is shown",
										children: [/* @__PURE__ */ a("a", {
											href: href({
												...route,
												table: null
											}),
											"aria-current": route.table === null ? "true" : void 0,
											children: "picture"
										}), /* @__PURE__ */ a("a", {
											href: href({
												...route,
												table: route.table ?? "nodes"
											}),
											"aria-current": route.table === null ? void 0 : "true",
											children: "tables"
										})]
									}),
									route.table === null && /* @__PURE__ */ a("label", { children: [
										"by",
										" ",
										/* @__PURE__ */ a("select", {
											value: order,
											onChange: (event) => setOrder(event.currentTarget.value),
											children: Object.keys(ORDERS).map((name) => /* @__PURE__ */ a("option", { children: name }, name))
										})
									] }),
									/* @__PURE__ */ a("label", { children: [
										"find",
										" ",
										/* @__PURE__ */ a("input", {
											type: "search",
											value: find,
											onInput: (event) => setFind(event.currentTarget.value),
											placeholder: "node, zone, pod"
										})
									] })
								]
							}), route.table === null ? /* @__PURE__ */ a($, { children: [/* @__PURE__ */ a(NodePicture, {
								cluster,
								names,
								selected: route.selected
							}), /* @__PURE__ */ a(Legend, {})] }) : /* @__PURE__ */ a(Tables, {
								cluster,
								of: route.table,
								find
							})]
						}),
						/* @__PURE__ */ a(Functions, { functions: cluster.functions }),
						/* @__PURE__ */ a(Starting, { cluster })
					]
				}), route.selected === null ? /* @__PURE__ */ a(Decisions, { cluster }) : /* @__PURE__ */ a(Panel, {
					cluster,
					selected: route.selected
				})]
			})
		]
	});
}
function Legend() {
	return /* @__PURE__ */ a("ul", {
		class: "legend",
		children: [
			LEGEND.map(([phase, words]) => /* @__PURE__ */ a("li", { children: [
				/* @__PURE__ */ a("i", { class: `dot ${phase}` }),
				" ",
				words
			] }, phase)),
			/* @__PURE__ */ a("li", { children: [/* @__PURE__ */ a("i", { class: "free-mark" }), " free: CPU across, memory upwards"] }),
			/* @__PURE__ */ a("li", { children: [/* @__PURE__ */ a("i", { class: "speed-mark" }), " speed: half is the median"] })
		]
	});
}
/** A new list only when nodes come or go, so that tiles stay where they are. */
function useOrder(cluster, order, find) {
	const [names, setNames] = d([]);
	A(() => {
		const renew = () => setNames(ordered(cluster, order, find));
		renew();
		return cluster.subscribe((touched) => touched === null && renew());
	}, [
		cluster,
		order,
		find
	]);
	return names;
}
/** The hash is the view's: move the focus instead. */
function skip(event) {
	event.preventDefault();
	document.querySelector(".right button")?.focus();
}
// src/cluster.ts
var DECISIONS_KEPT = 200;
var NO_HEAD = {
	nodes: 0,
	pods: 0,
	usd_per_hour: null,
	requests_per_s: null,
	cold_starts_last_minute: null
};
var Cluster = class {
	name = "";
	at = "";
	loaded = false;
	head = NO_HEAD;
	decisions = [];
	nodes = /* @__PURE__ */ new Map();
	pods = /* @__PURE__ */ new Map();
	functions = /* @__PURE__ */ new Map();
	/** Pods that are not Ready yet, whether they have a node or not. */
	starting = /* @__PURE__ */ new Map();
	byNode = /* @__PURE__ */ new Map();
	listeners = /* @__PURE__ */ new Set();
	/** In the order in which they came, so that a change of one pod moves no other. */
	podsOn(node) {
		return this.byNode.get(node)?.values() ?? [];
	}
	podsOf(fn) {
		return [...this.pods.values()].filter((pod) => pod.function === fn);
	}
	replace(snapshot) {
		for (const map of [
			this.nodes,
			this.pods,
			this.functions,
			this.starting,
			this.byNode
		]) map.clear();
		this.name = snapshot.cluster;
		this.decisions = [];
		this.loaded = true;
		this.take(snapshot);
		this.tell(null);
	}
	apply(change) {
		this.tell(this.take(change));
	}
	subscribe(listener) {
		this.listeners.add(listener);
		return () => void this.listeners.delete(listener);
	}
	take(change) {
		const touched = /* @__PURE__ */ new Set();
		let nodesCameOrWent = false;
		this.at = change.at;
		this.head = change.head;
		for (const [name, node] of Object.entries(change.nodes)) {
			nodesCameOrWent ||= this.nodes.has(name) !== (node !== null);
			put(this.nodes, name, node);
			touched.add(name);
		}
		for (const [key, pod] of Object.entries(change.pods)) this.takePod(key, pod, touched);
		for (const [key, fn] of Object.entries(change.functions)) put(this.functions, key, fn);
		if (change.decisions.length > 0) this.decisions = [...change.decisions, ...this.decisions].slice(0, DECISIONS_KEPT);
		return nodesCameOrWent ? null : touched;
	}
	takePod(key, pod, touched) {
		const before = this.pods.get(key)?.node ?? null;
		const now = pod?.node ?? null;
		if (before !== null && before !== now) {
			this.byNode.get(before)?.delete(key);
			touched.add(before);
		}
		if (pod !== null && now !== null) {
			let there = this.byNode.get(now);
			if (there === void 0) this.byNode.set(now, there = /* @__PURE__ */ new Map());
			there.set(key, pod);
			touched.add(now);
		}
		put(this.pods, key, pod);
		put(this.starting, key, pod !== null && (pod.phase === "Pending" || pod.phase === "Creating") ? pod : null);
	}
	tell(touched) {
		for (const listener of this.listeners) listener(touched);
	}
};
function put(map, key, value) {
	if (value === null) map.delete(key);
	else map.set(key, value);
}
// src/main.tsx
Q(/* @__PURE__ */ a(App, { cluster: new Cluster() }), document.getElementById("page"));
