// SPDX-License-Identifier: MIT
// The menu: every op of Strata with its call, its formula and its header, which gives shapes, errors and saved tensors.
// `python3 tools/explain/menu.py > kernels/kernels.h` makes it from these headers.
//
// An op is a function of tensors whose last argument is the level, the implementation to call: aten, torchscript,
// aot_inductor, triton or cuda. All levels compute the same formula. Autograd differentiates all ops but those that run
// once a step: updates of weights, and sum_of_squares. At level torchscript it differentiates the formula itself and
// saves what it needs; the headers name the tensors that the other levels save.
//
// An op throws a ValueError if its arguments do not match. It throws a c10::Error if it has no kernel at this level on
// the device of its tensors, and never uses another level instead. The header kernels/level_matrix.h lists the levels
// of each op.
#pragma once

// linear(x, weight, bias, activation, level): y = activation(x weight^T + bias)
// linear_and_pre_activation(x, weight, bias, kind, level): y, and pre_activation = x weight^T + bias
#include "kernels/linear/linear.h"

// layer_norm(x, weight, bias, eps, level): y = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias
// add_layer_norm(residual, branch, weight, bias, eps, level): sum = residual + branch, y = layer_norm(sum)
// layer_norm_gelu_tanh(x, weight, bias, eps, level): y = gelu_tanh(layer_norm(x))
#include "kernels/layer_norm/layer_norm.h"

// rms_norm(x, weight, eps, level): y = x / sqrt(mean(x^2) + eps) * weight
// add_rms_norm(residual, branch, weight, eps, level): sum = residual + branch, y = rms_norm(sum)
#include "kernels/rms_norm/rms_norm.h"

// activation(x, kind, level): y = gelu(x), gelu_tanh(x), relu(x) or silu(x)
#include "kernels/activation/activation.h"

// swiglu(gate_up, kind, level): y = silu(gate) * up or gelu_tanh(gate) * up, where gate_up = [gate, up]
#include "kernels/swiglu/swiglu.h"

// rotary(qkv, cosine, sine, heads, key_value_heads, level): y1 = x1 c - x2 s, y2 = x2 c + x1 s for the halves x1, x2 of
// every query and key head; may overwrite qkv
#include "kernels/rotary/rotary.h"

// rms_norm_rotary(qkv, norms, cosine, sine, heads, key_value_heads, eps, level): rotary of rms_norm of every query and
// key head
#include "kernels/rms_norm_rotary/rms_norm_rotary.h"

// attention(qkv, heads, key_value_heads, mask, terms, level): y = softmax(q k^T / sqrt(D)) v for every head
// attention_of_part(query, keys, heads, key_value_heads, mask, terms, level): the same for a part of each row's queries
#include "kernels/attention/attention.h"

// embedding(indices, weight, level): y[i] = weight[indices[i]]
#include "kernels/embedding/embedding.h"

// dropout(x, probability, key, site, first_row, level): y = x / (1 - p) where hash(key, site, row, column) >= p 2^32,
// else 0
#include "kernels/dropout/dropout.h"

// cross_entropy(logits, targets, scale, ignore_index, label_smoothing, level): loss = scale * sum of -log p(target),
// p = softmax(logits); may overwrite logits
#include "kernels/cross_entropy/cross_entropy.h"

// linear_cross_entropy(hidden, weight, targets, scale, ignore_index, label_smoothing, softcap, level):
// loss = cross_entropy(softcap * tanh(hidden weight^T / softcap), ...) without the logits of all rows in memory
#include "kernels/linear_cross_entropy/linear_cross_entropy.h"

// neighbor_aggregate(x, graph, edge_weight, reduction, level): y[t] = sum, mean or maximum of weight[e] * x[s] over the
// edges e from s to t
// neighbor_attention(x, score_source, score_target, graph, negative_slope, level): y[t] = sum of softmax(score)[e] *
// x[s] over the edges of t, score[e] = leaky_relu(score_source[s] + score_target[t])
#include "kernels/neighbor_aggregate/neighbor_aggregate.h"

// adamw(master, first_moment, second_moment, gradient, compute_copy, scalars, options, level): one update in place;
// g = gradient * gradient_scale, first = beta1 * first + (1 - beta1) * g, second = beta2 * second + (1 - beta2) * g^2
#include "kernels/adamw/adamw.h"

// sum_of_squares(gradients, level): sum of x^2 over all elements of all tensors
#include "kernels/sum_of_squares/sum_of_squares.h"
