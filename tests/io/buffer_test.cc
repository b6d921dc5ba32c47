#include "io/buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "io/slab.h"

namespace shardfeed {
namespace {

TEST(Buffer, KeepsItsBytesWhenItIsResized) {
  const auto buffer = Buffer::Allocate(0);
  size_t filled = 0;
  // Sizes that stay within one kind of memory, and sizes that change it in both directions.
  for (const size_t size : {1, 5'000, 100'000, 200'000, 9 << 20, 300'000, 90'000, 10, 3 << 20}) {
    buffer->Resize(size);
    ASSERT_GE(buffer->size(), size);
    EXPECT_EQ(buffer->size() % Buffer::kAlignment, 0);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % Buffer::kAlignment, 0);
    filled = std::min(filled, buffer->size());
    for (size_t i = 0; i < filled; ++i) {
      ASSERT_EQ(buffer->data()[i], static_cast<char>(i % 251)) << size;
    }
    for (; filled < buffer->size(); ++filled) {
      buffer->data()[filled] = static_cast<char>(filled % 251);
    }
  }
  EXPECT_THROW(buffer->Resize(SIZE_MAX - 5), std::bad_alloc);
  EXPECT_EQ(buffer->data()[7], 7);
}

TEST(BufferPool, UsesBuffersAgainUpToItsBound) {
  const auto pool = BufferPool::Create(1 << 20);
  const char* first = nullptr;
  {
    const auto buffer = pool->Allocate(100'000);
    EXPECT_GE(buffer->size(), 100'000);
    EXPECT_LT(buffer->size(), 100'000 + 100'000 / 4);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % Buffer::kAlignment, 0);
    first = buffer->data();
  }
  EXPECT_EQ(pool->Allocate(100'000)->data(), first);
  EXPECT_GE(pool->Allocate(0)->size(), 1);
  // Too large to be kept, so it must not be counted as idle.
  pool->Allocate(8 << 20);
  std::vector<std::shared_ptr<Buffer>> many;
  for (int i = 0; i < 100; ++i) many.push_back(pool->Allocate(100'000));
  std::set<char*> distinct;
  for (const auto& buffer : many) distinct.insert(buffer->data());
  EXPECT_EQ(distinct.size(), 100);
}

TEST(BufferPool, BuffersOutliveIt) {
  auto pool = BufferPool::Create(1 << 20);
  auto buffer = pool->Allocate(1000);
  pool = nullptr;
  std::fill_n(buffer->data(), 1000, 'x');
}

TEST(BufferPool, ManyThreads) {
  const auto pool = BufferPool::Create(1 << 20);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      for (int i = 0; i < 500; ++i) {
        const auto buffer = pool->Allocate(1 + i * 977 % 300'000);
        buffer->data()[0] = static_cast<char>(t);
        EXPECT_EQ(buffer->data()[0], t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(BufferPool, CutsBuffersFromSlabs) {
  const auto pool = BufferPool::Create(0, BufferPool::Memory::kSlabs);
  std::mt19937_64 random(1);
  std::vector<std::pair<std::shared_ptr<Buffer>, char>> buffers;
  std::set<const Slab*> slabs;
  for (int i = 0; i < 5000; ++i) {
    if (buffers.size() > 100 || (!buffers.empty() && random() % 3 == 0)) {
      const size_t gone = random() % buffers.size();
      const auto& [buffer, mark] = buffers[gone];
      ASSERT_EQ(std::count(buffer->data(), buffer->data() + 10, mark), 10);
      ASSERT_EQ(buffer->data()[buffer->size() - 1], mark);
      buffers.erase(buffers.begin() + static_cast<ptrdiff_t>(gone));
      continue;
    }
    const size_t size = random() % (random() % 2 == 0 ? 3'000'000 : 100'000);
    const char mark = static_cast<char>(random());
    auto buffer = pool->Allocate(size);
    ASSERT_NE(buffer->slab(), nullptr);
    ASSERT_GE(buffer->size(), std::max<size_t>(size, 1));
    ASSERT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % Buffer::kAlignment, 0);
    std::fill_n(buffer->data(), 10, mark);
    buffer->data()[buffer->size() - 1] = mark;
    slabs.insert(buffer->slab().get());
    buffers.emplace_back(std::move(buffer), mark);
  }
  EXPECT_GT(slabs.size(), 1);
  // A larger buffer has memory of its own.
  EXPECT_EQ(pool->Allocate(Slab::kBytes)->slab(), nullptr);
}

TEST(BufferPool, SlabsGoWhenTheirBuffersHaveGone) {
  const auto pool = BufferPool::Create(0, BufferPool::Memory::kSlabs);
  std::vector<std::shared_ptr<Buffer>> buffers;
  std::vector<std::weak_ptr<Slab>> slabs;
  for (int i = 0; i < 8; ++i) {
    buffers.push_back(pool->Allocate(Slab::kBytes / 2));
    if (i % 2 == 0) slabs.push_back(buffers.back()->slab());
  }
  std::shared_ptr<Slab> held = slabs[1].lock();
  buffers.resize(1);
  EXPECT_FALSE(slabs[0].expired());
  EXPECT_TRUE(slabs[2].expired() && slabs[3].expired());
  buffers.clear();
  pool->Close();
  held = nullptr;
  for (const std::weak_ptr<Slab>& slab : slabs) EXPECT_TRUE(slab.expired());
  // A closed pool still provides buffers.
  EXPECT_NE(pool->Allocate(1)->slab(), nullptr);
}

TEST(BufferPool, OneEmptySlabStaysForWhatComesNext) {
  const auto pool = BufferPool::Create(0, BufferPool::Memory::kSlabs);
  std::vector<std::shared_ptr<Buffer>> buffers;
  std::vector<std::weak_ptr<Slab>> slabs;
  for (int i = 0; i < 3; ++i) {
    buffers.push_back(pool->Allocate(Slab::kBytes / 2 - Slab::kPage));
    buffers.push_back(pool->Allocate(Slab::kBytes / 2));
    slabs.push_back(buffers.back()->slab());
  }
  buffers.resize(4);
  EXPECT_FALSE(slabs[2].expired());
  buffers.resize(2);
  EXPECT_FALSE(slabs[1].expired());
  EXPECT_TRUE(slabs[2].expired());
}

TEST(BufferPool, SlabsStayWhileAllTakeNoMoreThanTheyMay) {
  const auto pool = BufferPool::Create(3 * Slab::kBytes, BufferPool::Memory::kSlabs);
  std::vector<std::shared_ptr<Buffer>> buffers;
  std::vector<std::weak_ptr<Slab>> slabs;
  for (int i = 0; i < 5; ++i) {
    buffers.push_back(pool->Allocate(Slab::kBytes / 2));
    buffers.push_back(pool->Allocate(Slab::kBytes / 2));
    slabs.push_back(buffers.back()->slab());
  }
  buffers.clear();
  const auto left = std::count_if(slabs.begin(), slabs.end(),
                                  [](const std::weak_ptr<Slab>& slab) { return !slab.expired(); });
  EXPECT_EQ(left, 3);
  // Buffers are reused.
  const auto again = pool->Allocate(1)->slab();
  EXPECT_TRUE(std::any_of(slabs.begin(), slabs.end(),
                          [&](const std::weak_ptr<Slab>& slab) { return slab.lock() == again; }));
}

}  // namespace
}  // namespace shardfeed
