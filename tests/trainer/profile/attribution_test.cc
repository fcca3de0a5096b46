// SPDX-License-Identifier: MIT
// Checks that work is attributed to its step, phase, layer, op and level by the host's scopes that were open at its
// launch.
#include "trainer/profile/attribution.h"

#include <gtest/gtest.h>

#include "tests/trainer/profile/made_up.h"

namespace strata::trainer::profile {
namespace {

TEST(ScopeTree, FindsTheInnermostOpenScopeOfAThread) {
  MadeUp trace;
  trace.user("outer", 0, 100);
  trace.user("first", 10, 40);
  trace.user("inside", 15, 30);
  trace.user("second", 40, 60);
  trace.user("elsewhere", 0, 1000, kAutograd);
  const ScopeTree tree(trace.scopes);
  EXPECT_EQ(tree.innermost(kLoop, 5), 0);
  EXPECT_EQ(tree.innermost(kLoop, 10), 1);
  EXPECT_EQ(tree.innermost(kLoop, 29), 2);
  EXPECT_EQ(tree.innermost(kLoop, 30), 1);
  EXPECT_EQ(tree.innermost(kLoop, 40), 3);
  EXPECT_EQ(tree.innermost(kLoop, 99), 0);
  EXPECT_EQ(tree.innermost(kLoop, 100), ScopeTree::kNone);
  EXPECT_EQ(tree.innermost(kAutograd, 100), 4);
  EXPECT_EQ(tree.innermost(kReader, 5), ScopeTree::kNone);
  EXPECT_EQ(tree.parent(2), 1);
  EXPECT_EQ(tree.parent(3), 0);
  EXPECT_EQ(tree.parent(4), ScopeTree::kNone);
  EXPECT_EQ(tree.own_times(), (std::vector<int64_t>{50, 15, 15, 20, 1000}));
}

TEST(ScopeTree, TheOuterOfTwoThatStartTogetherIsTheLongerOne) {
  MadeUp trace;
  trace.user("inner", 0, 10);
  trace.user("outer", 0, 20);
  const ScopeTree tree(trace.scopes);
  EXPECT_EQ(tree.innermost(kLoop, 0), 0);
  EXPECT_EQ(tree.parent(0), 1);
}

// One step: a layer with an op of Strata that has a backward of its own, an op that autograd differentiates, and the
// rest.
MadeUp small_step() {
  MadeUp trace;
  trace.user("step 7", 0, 1000);
  trace.user("data", 10, 20);
  trace.user("forward", 100, 400);
  trace.user("layer 3", 110, 300);
  trace.user("rms_norm/triton", 120, 150);
  trace.user("linear/aten", 160, 250);
  trace.function("aten::t", 165, 170, 41);  // creates no node
  trace.function("aten::addmm", 175, 240, 41);
  trace.function("aten::gelu", 241, 249, 42);
  trace.function("aten::add", 310, 350, 43);
  trace.layers.push_back({.layer = 3, .thread_number = 1, .first = 40, .end = 43});
  trace.user("backward", 400, 800);
  trace.function("autograd::engine::evaluate_function: AddBackward0", 410, 450, 43, kAutograd);
  trace.backward("AddBackward0", 412, 440, 43);
  trace.backward("AddmmBackward0", 460, 560, 41);
  trace.function("aten::mm", 470, 500, -1, kAutograd);
  trace.backward("torch::autograd::CppNode<RmsNormFunction>", 600, 700, 40);
  trace.user("rms_norm/triton/backward", 610, 690, kAutograd);
  trace.user("optimizer", 800, 990);
  trace.user("adamw/cuda", 810, 900);
  trace.user("all_reduce loss and gradient norm", 910, 950);
  trace.user("wait for all_gather blocks.5", 960, 980);
  return trace;
}

TEST(Attribution, OfTheForward) {
  const MadeUp trace = small_step();
  const Attribution attribution(trace);
  const Origin norm = attribution.of_launch(kLoop, 130);
  EXPECT_EQ(norm.step, 7);
  EXPECT_EQ(norm.layer, 3);
  EXPECT_EQ(norm.phase, "forward");
  EXPECT_EQ(norm.op, "rms_norm");
  EXPECT_EQ(norm.level, "triton");
  EXPECT_FALSE(norm.backward);
  const Origin linear = attribution.of_launch(kLoop, 200);
  EXPECT_EQ(linear.op, "linear");
  EXPECT_EQ(linear.level, "aten");
  EXPECT_NE(linear.call, norm.call);
  EXPECT_EQ(linear.call, attribution.of_launch(kLoop, 245).call);
  const Origin add = attribution.of_launch(kLoop, 320);
  EXPECT_EQ(add.op, "aten::add");
  EXPECT_EQ(add.level, "");
  EXPECT_EQ(add.layer, -1);
  EXPECT_EQ(add.call, -1);
  EXPECT_EQ(attribution.of_launch(kLoop, 15).phase, "data");
}

TEST(Attribution, OfTheBackwardByTheNodesOfTheForward) {
  const MadeUp trace = small_step();
  const Attribution attribution(trace);
  const Origin linear = attribution.of_launch(kAutograd, 480);
  EXPECT_EQ(linear.op, "linear");
  EXPECT_EQ(linear.level, "aten");
  EXPECT_TRUE(linear.backward);
  EXPECT_EQ(linear.layer, 3);
  EXPECT_EQ(linear.step, 7);
  EXPECT_EQ(linear.phase, "backward");
  const Origin norm = attribution.of_launch(kAutograd, 650);
  EXPECT_EQ(norm.op, "rms_norm");
  EXPECT_EQ(norm.level, "triton");
  EXPECT_TRUE(norm.backward);
  EXPECT_EQ(norm.layer, 3);
  const Origin add = attribution.of_launch(kAutograd, 430);
  EXPECT_EQ(add.op, "AddBackward0");
  EXPECT_EQ(attribution.of_launch(kAutograd, 445).op, "AddBackward0") << "the engine, around the node";
  EXPECT_EQ(add.level, "");
  EXPECT_EQ(add.layer, -1);
}

// On CPUs the autograd engine runs in the thread of the loop.
TEST(Attribution, TheEngineMakesNoNodes) {
  MadeUp trace = small_step();
  trace.function("autograd::engine::evaluate_function: AddmmBackward0", 500, 600, 41);
  trace.scopes.back().node_thread_number = 1;
  trace.backward("AddmmBackward0", 510, 590, 41, kLoop);
  const Origin origin = Attribution(trace).of_launch(kLoop, 550);
  EXPECT_EQ(origin.op, "linear");
  EXPECT_TRUE(origin.backward);
}

TEST(Attribution, OfARecomputedForward) {
  MadeUp trace = small_step();
  trace.backward("torch::autograd::CppNode<Recompute>", 710, 790, 42);
  trace.user("rms_norm/triton", 720, 730, kAutograd);
  const Origin norm = Attribution(trace).of_launch(kAutograd, 725);
  EXPECT_EQ(norm.op, "rms_norm");
  EXPECT_FALSE(norm.backward);
  EXPECT_EQ(norm.layer, 3);
  EXPECT_EQ(norm.phase, "backward");
}

TEST(Attribution, NodesOfAnotherThreadWithTheSameNumberAreOthers) {
  MadeUp trace = small_step();
  trace.add(Scope::Kind::backward, "AddmmBackward0", 710, 790, kAutograd).node = 41;
  trace.scopes.back().node_thread_number = 2;
  const Origin origin = Attribution(trace).of_launch(kAutograd, 720);
  EXPECT_EQ(origin.op, "AddmmBackward0");
  EXPECT_EQ(origin.layer, -1);
}

TEST(Attribution, OfCollectivesAndOfTheOptimizer) {
  const MadeUp trace = small_step();
  const Attribution attribution(trace);
  EXPECT_EQ(attribution.of_launch(kLoop, 850).op, "adamw");
  EXPECT_EQ(attribution.of_launch(kLoop, 850).phase, "optimizer");
  const Origin reduce = attribution.of_launch(kLoop, 920);
  EXPECT_EQ(reduce.op, "all_reduce");
  EXPECT_EQ(reduce.level, kCollective);
  EXPECT_EQ(reduce.layer, -1);
  const Origin wait = attribution.of_launch(kLoop, 970);
  EXPECT_EQ(wait.op, "all_gather");
  EXPECT_EQ(wait.level, kWait);
  EXPECT_EQ(wait.layer, 5);

  MadeUp of_graph_network = small_step();
  of_graph_network.user("reduce_scatter layers.2", 991, 999);
  EXPECT_EQ(Attribution(of_graph_network).of_launch(kLoop, 995).layer, 2);
}

TEST(Attribution, OfTheThreadThatReadsBatchesAndOfWhatLiesBetweenSteps) {
  const MadeUp trace = small_step();
  const Attribution attribution(trace);
  EXPECT_EQ(attribution.of_launch(kReader, 500).step, -1);
  EXPECT_EQ(attribution.of_launch(kReader, 500).phase, "data");
  EXPECT_EQ(attribution.of_launch(kLoop, 2000).step, -1);
}

}  // namespace
}  // namespace strata::trainer::profile
