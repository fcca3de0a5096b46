cd /work/s49-small
nice -n 5 g++ -std=c++20 -O2 -I. -Wall -Wextra -o /tmp/lk/t tests/kernels/pattern/later_keys_test.cc kernels/attention/pattern/{layer_reach,later_keys,key_bits,one_document,pair_counter,parse_pattern,pattern,program,share,visible}.cc base/text/*.cc -lgtest -lgtest_main -lpthread 2>&1 | tail -30
